"""Engines that the configuration file does not name: by flag, by environment, by a file in a folder.

Belongs here: how a registration is written (`section`), as a flag (`flags`), as a file (`folder`), and the task that
follows the folder (`follow`). May not be here: looking at an engine. `metrics_agent.app` calls it.
"""

"""Turns samples and operators' keys into published weights.

Belongs here: reading the world from the store, deciding by the rules of tidegate.domain, publishing what changed
and the audit log. May not be here: xDS, request handling, a formula about load or weights. `loop.run` is called
by the process that `tidegate xds` starts; xds_server and ext_proc learn decisions from the store alone.
"""

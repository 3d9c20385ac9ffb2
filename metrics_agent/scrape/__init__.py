"""Engines, one owner task each: fetch the page (`http`), scan it (`exposition`), read it (`reading`), judge the
engine's state (`life`), and keep the newest sample (`watcher`). Everything but `http` and the watcher's loop is
pure. The publisher reads `EngineWatcher.latest`.
"""

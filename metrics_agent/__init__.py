"""One a node: scrapes the node's engines, reads its GPUs, publishes both to the store.

Belongs here: how engines name their metrics (`vendors`), reading pages (`scrape`), NVML behind the port of `gpu`,
and the tick that publishes. May not be here: a weight or a choice. `app.serve` wires it; `tidegate agent` calls it.
"""

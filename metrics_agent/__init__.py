"""One a node: scrapes its engines, reads NVML, publishes samples to Redis. No weight and no choice is made here. `tidegate agent` calls `app`."""

"""The GPUs of a node: readings of every card by UUID, and which cards an engine runs on.

Belongs here: the port that the agent reads GPUs through (`port`), the process that makes every NVML call (`process`
owns it, `worker` runs in it, `sweep` reads all cards once), what is remembered of cards that vanish (`roster`), and
how cards are named by engines (`visible`, `memory`). May not be here: pynvml, which `metrics_agent.nvml` alone
imports; anything about engine pages. Called by the agent's wiring and its publisher.
"""

from metrics_agent.gpu.memory import memory_of, with_gpus
from metrics_agent.gpu.port import FixedGpus, GpuFields, GpuReader, GpuReading, NvmlState, in_time_of

__all__ = ["FixedGpus", "GpuFields", "GpuReader", "GpuReading", "NvmlState", "in_time_of", "memory_of", "with_gpus"]

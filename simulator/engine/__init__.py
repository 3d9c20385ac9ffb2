"""A continuous-batching engine and a diffusion engine, as pure models in simulated seconds.

The caller owns the clock: `advance(to)` runs every step that ends by `to` and returns what happened, `submit` and
`abort` act at the time advanced to, `next_event_time()` says when to look again. No I/O, no asyncio, no randomness
but the `random.Random` given to `OutputLengths`. Used by `simulator.http` in real time and by trace replay in
simulated time.
"""

from simulator.engine.batching import Engine
from simulator.engine.diffusion import DiffusionEngine, DiffusionParams, ImageJob, ImageRequest
from simulator.engine.histogram import Histogram
from simulator.engine.lengths import OutputLengths
from simulator.engine.params import EngineParams, StepCost
from simulator.engine.request import Event, EventKind, FinishReason, Output, Request, Sequence

__all__ = [
    "DiffusionEngine",
    "DiffusionParams",
    "Engine",
    "EngineParams",
    "Event",
    "EventKind",
    "FinishReason",
    "Histogram",
    "ImageJob",
    "ImageRequest",
    "Output",
    "OutputLengths",
    "Request",
    "Sequence",
    "StepCost",
]

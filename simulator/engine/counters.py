"""What an engine counts while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.engine.histogram import Histogram

_INTER_TOKEN_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_STEP_TOKENS = (1.0, *(float(2**power) for power in range(3, 15)))


@dataclass(slots=True)
class Counters:
    """What an engine has done since its start, in vLLM's buckets. Prompt tokens count with their first token."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    busy_seconds: float = 0.0
    step_tokens: Histogram = field(default_factory=lambda: Histogram(_STEP_TOKENS))
    inter_token_seconds: Histogram = field(default_factory=lambda: Histogram(_INTER_TOKEN_SECONDS))

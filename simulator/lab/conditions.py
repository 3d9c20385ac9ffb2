"""The circumstances of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.engine import EngineParams
from simulator.lab.presets import ENGINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What all runs of a report share. Delays are milliseconds, drawn evenly from the pair.

    sample_ms      between two samples of a replica (the agent's interval)
    scrape_ms      from the beginning of an interval until the engine is read
    delivery_ms    from the reading until a picker has it: the agent's publish, Redis, the picker's loop
    dispatch_ms    from the pick until the engine has the request: Envoy, the network, the engine's server
    share_ms       from a picker's message until another has it: median and 99th percentile of a log-normal delay
    share_gap_ms   between two messages of one picker at least: what it picks meanwhile goes with the next
    rate_error     part by which believed rates are above the engines' true ones, above -1
    slow_replica   speed of replica 0 as a part of the others', above 0; nobody is told
    slo_ttft_ms, slo_tpot_ms   what a good answer keeps below: first token, and each further one on average
    """

    engine: EngineParams = field(default_factory=lambda: ENGINES["8b"])
    replicas: int = 8
    pickers: int = 1
    sample_ms: float = 100.0
    scrape_ms: tuple[float, float] = (0.0, 10.0)
    delivery_ms: tuple[float, float] = (10.0, 60.0)
    dispatch_ms: tuple[float, float] = (2.0, 5.0)
    share_ms: tuple[float, float] = (2.6, 15.0)
    share_gap_ms: float = 5.0
    rate_error: float = 0.0
    slow_replica: float = 1.0
    slo_ttft_ms: float = 2000.0
    slo_tpot_ms: float = 60.0

"""One engine of the fleet, and what an agent beside it would tell."""

from __future__ import annotations

from collections import deque
from typing import Final

from simulator.engine import Engine, EngineParams, Event, EventKind, Sequence
from simulator.lab.call import Call
from tidegate.domain.sample import EndpointSample, Status

CLUSTER: Final = "lab"
EPOCH_MS: Final = 1_700_000_000_000
"""Unix milliseconds of simulated second 0: samples and picks carry Unix time."""
_WINDOW_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 1.0


def unix_ms(seconds: float) -> int:
    """A simulated second as the services' clock shows it."""
    return EPOCH_MS + int(seconds * 1000)


class Replica:
    """An engine under a number and an address. `wake` is when its next event may come, None: never."""

    def __init__(self, number: int, params: EngineParams) -> None:
        self.number = number
        self.address = f"10.0.0.{number + 1}:8000"
        self.engine = Engine(params)
        self.wake: float | None = None
        self.uncached_tokens = 0  # of prompts that were prefilled
        self._calls: dict[Sequence, Call] = {}
        self._prompts = 0
        self._seq = 0
        self._looks: deque[tuple[float, int, int, int]] = deque()  # seconds, queried, hit, generated

    def submit(self, call: Call, now: float) -> list[Event[Sequence]]:
        """The request reaches the engine; what happened there until now."""
        events = self.engine.advance(now)
        (sequence,) = self.engine.submit(call.request(self.engine.params.block_size), now)
        self._calls[sequence], call.sequence = call, sequence
        return events

    def call_of(self, event: Event[Sequence]) -> Call:
        """Whose event it is; a call's times are written with it."""
        sequence = event.subject
        call = self._calls[sequence]
        if event.kind is EventKind.FIRST_TOKEN:
            call.first_token_at, call.cached_tokens = event.at, sequence.cached_tokens
            self.uncached_tokens += call.prompt_tokens - sequence.cached_tokens
            self._prompts += 1
        elif event.kind is EventKind.FINISHED:
            call.finished_at, call.preemptions = event.at, sequence.preemptions
            del self._calls[sequence]
        return call

    def sample(self, now: float) -> EndpointSample:
        """What the agent reads at `now`, the time the engine was advanced to: vLLM's gauges and counters."""
        engine, counters = self.engine, self.engine.counters
        self._look(now)
        self._seq += 1
        begun, queried, hit, generated = self._looks[0]
        queries = counters.prefix_queried_tokens - queried
        hits, seen = (counters.prefix_hit_tokens - hit, queries) if queries else (
            counters.prefix_hit_tokens, counters.prefix_queried_tokens
        )  # fmt: skip
        return EndpointSample(
            cluster=CLUSTER,
            address=self.address,
            node=self.address,
            sampled_at_ms=unix_ms(now),
            seq=self._seq,
            status=Status.READY if engine.running or engine.waiting else Status.IDLE,
            running=engine.running,
            waiting=engine.waiting,
            kv_used_ratio=engine.kv_used_ratio,
            kv_capacity_tokens=engine.params.kv_tokens,
            block_size=engine.params.block_size,
            tokens_per_second=(counters.generation_tokens - generated) / (now - begun) if now > begun else None,
            prefix_hit_ratio=hits / seen if seen else None,
            prompt_tokens_total=counters.prompt_tokens,
            prompts_total=self._prompts,
        )

    def _look(self, now: float) -> None:
        looks = self._looks
        if not looks or now - looks[-1][0] >= _LOOK_SECONDS:
            counters = self.engine.counters
            looks.append((now, counters.prefix_queried_tokens, counters.prefix_hit_tokens, counters.generation_tokens))
            while now - looks[0][0] > _WINDOW_SECONDS:
                looks.popleft()

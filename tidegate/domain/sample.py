"""What an agent saw: one sample a replica and tick, one a node and tick. Unknown is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Life state of a replica, as its agent sees it."""

    LOADING = "loading"
    READY = "ready"
    IDLE = "idle"
    ASLEEP = "asleep"
    DRAINING = "draining"
    UNREACHABLE = "unreachable"

    @property
    def takes_traffic(self) -> bool:
        """Whether a new request may go there."""
        return self in _SERVING


_SERVING: Final = frozenset({Status.READY, Status.IDLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSample:
    """State of one replica at `sampled_at_ms` (Unix milliseconds).

    `running` and `waiting` count requests; `kv_used_ratio` and `prefix_hit_ratio` lie in [0, 1];
    `latency_p99_ms` is end to end and `ttft_p99_ms` is to the first token, both over the last minute, as is
    `tokens_per_second`, what the replica generates. `prompt_tokens_total` and `prompts_total` are the engine's
    counters of prompts whose first token is there, `admission_rejections_total` of requests that it would not
    queue, `generation_tokens_total` of tokens generated and `requests_finished_total` of requests that ended, however;
    they begin anew with the engine. `models` are the names that it serves, adapters among them; `loras` are
    the adapters with requests in flight, of at most `max_loras`. `precision` and `kind` are what its registration
    says. A field that the engine does not tell is None.
    """

    cluster: str
    address: str
    node: str
    sampled_at_ms: int
    seq: int
    status: Status
    running: int | None = None
    waiting: int | None = None
    kv_used_ratio: float | None = None
    kv_capacity_tokens: int | None = None
    block_size: int | None = None
    vram_free_bytes: int | None = None
    vram_total_bytes: int | None = None
    latency_p99_ms: float | None = None
    tokens_per_second: float | None = None
    prefix_hit_ratio: float | None = None
    prompt_tokens_total: int | None = None
    prompts_total: int | None = None
    ttft_p99_ms: float | None = None
    admission_rejections_total: int | None = None
    generation_tokens_total: int | None = None
    requests_finished_total: int | None = None
    loras: tuple[str, ...] = ()
    max_loras: int | None = None
    models: tuple[str, ...] = ()
    precision: str | None = None
    kind: str | None = None

    def age_ms(self, now_ms: int) -> int:
        """Milliseconds since the sample was taken, at least 0."""
        return max(0, now_ms - self.sampled_at_ms)

    def is_fresh(self, now_ms: int, ttl_ms: int) -> bool:
        """Whether the sample still says anything: a stale one scores nothing.

        One from further ahead than `ttl_ms` is of a clock that went wrong: it would never age.
        """
        return abs(now_ms - self.sampled_at_ms) <= ttl_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """State of one node: `nvml` and the fields of `gpus`, which is by UUID, are listed in docs/nvml.md."""

    node: str
    sampled_at_ms: int
    seq: int
    nvml: str
    gpus: dict[str, dict[str, bool | int | float | str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTick:
    """One message of the channel `samples`: everything that one agent saw in one tick.

    `gone` are the (cluster, address) that it watches no more: they left on purpose, and at once.
    """

    node: NodeSample
    endpoints: tuple[EndpointSample, ...]
    gone: tuple[tuple[str, str], ...] = ()

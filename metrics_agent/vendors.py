"""How each engine names what Tidegate reads: one table, and nothing else knows these names.

A new engine is one more `Vendor`. Families of a row are tried in order, and the first that the page has wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Fold(Enum):
    """How several series of one family (engines, data-parallel ranks, stages) become one number."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number on the page. `added` families join the sum where they exist; `where` picks series by one label."""

    family: bytes
    fold: Fold = Fold.SUM
    added: tuple[bytes, ...] = ()
    where: tuple[bytes, bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """Names of one engine. `prefix` starts the families that only it has.

    `models` is the path that lists the served names. `latency` are histograms in seconds without their `_bucket`,
    of whole requests; `generated` counts output tokens; `prompts` pairs (prompt tokens, prompts), both counted when
    a prompt's first token is there; `prefix_cache` pairs (queries, hits); `cache_info` carries sizes as labels.
    """

    name: str
    prefix: bytes
    page: str = "/metrics"
    health: str = "/health"
    models: str = "/v1/models"
    running: tuple[Gauge, ...] = ()
    waiting: tuple[Gauge, ...] = ()
    kv_used: tuple[Gauge, ...] = ()
    awake: tuple[Gauge, ...] = ()
    latency: tuple[bytes, ...] = ()
    generated: tuple[bytes, ...] = ()
    prompts: tuple[tuple[bytes, bytes], ...] = ()
    prefix_cache: tuple[tuple[bytes, bytes], ...] = ()
    cache_info: bytes | None = None
    model_label: bytes = b"model_name"

    def families(self) -> frozenset[bytes]:
        """Every name that may stand at the start of a line worth reading."""
        gauges = (*self.running, *self.waiting, *self.kv_used, *self.awake)
        names = {name for gauge in gauges for name in (gauge.family, *gauge.added)}
        names.update(histogram + b"_bucket" for histogram in self.latency)
        names.update(self.generated)
        names.update(name for pair in (*self.prompts, *self.prefix_cache) for name in pair)
        return frozenset(names | ({self.cache_info} if self.cache_info else set()))


VLLM: Final = Vendor(
    name="vllm",
    prefix=b"vllm:",
    running=(Gauge(b"vllm:num_requests_running"),),
    # V0 (to 0.8) counts preempted requests apart; they wait all the same.
    waiting=(Gauge(b"vllm:num_requests_waiting", added=(b"vllm:num_requests_swapped",)),),
    # 0.9.2 to 0.10 show both names with one value; 0.11 hides the older.
    kv_used=(
        Gauge(b"vllm:kv_cache_usage_perc", Fold.MAX),
        Gauge(b"vllm:gpu_cache_usage_perc", Fold.MAX),
    ),
    awake=(Gauge(b"vllm:engine_sleep_state", Fold.MIN, where=(b"sleep_state", b"awake")),),
    latency=(b"vllm:e2e_request_latency_seconds",),
    generated=(b"vllm:generation_tokens_total",),
    prompts=((b"vllm:prompt_tokens_total", b"vllm:time_to_first_token_seconds_count"),),
    prefix_cache=(
        (b"vllm:prefix_cache_queries_total", b"vllm:prefix_cache_hits_total"),
        (b"vllm:gpu_prefix_cache_queries_total", b"vllm:gpu_prefix_cache_hits_total"),
    ),
    cache_info=b"vllm:cache_config_info",
)

VLLM_OMNI: Final = Vendor(
    name="vllm-omni",
    prefix=b"vllm_omni:",
    running=(Gauge(b"vllm_omni:num_requests_running"), *VLLM.running),
    waiting=(Gauge(b"vllm_omni:num_requests_waiting"), *VLLM.waiting),
    kv_used=VLLM.kv_used,
    awake=VLLM.awake,
    latency=(b"vllm_omni:e2e_request_latency_s",),
    generated=VLLM.generated,
    prompts=VLLM.prompts,
    prefix_cache=VLLM.prefix_cache,
    cache_info=VLLM.cache_info,
)

VENDORS: Final = (VLLM_OMNI, VLLM)
"""In order of recognition: vllm-omni pages show some of vLLM's families too."""

WANTED: Final = frozenset().union(*(vendor.families() for vendor in VENDORS))

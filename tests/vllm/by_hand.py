"""A vLLM page read without Tidegate: prometheus_client's parser and arithmetic on paper."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from tests.vllm.replica import Replica

LATENCY = "vllm:e2e_request_latency_seconds_bucket"


@dataclass(frozen=True)
class Page:
    """What matters of one page; `latency` is cumulative counts by upper bound in seconds."""

    at: float
    running: float
    waiting: float
    kv: float
    generated: float
    latency: dict[float, float] = field(default_factory=dict)


def read(replica: Replica) -> Page:
    """Fetch and read the page once."""
    at, sums = time.monotonic(), dict[str, float]()
    latency: dict[float, float] = {}
    for family in text_string_to_metric_families(replica.get("/metrics")):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
            if sample.name == LATENCY:
                bound = float(sample.labels["le"])
                latency[bound] = latency.get(bound, 0.0) + sample.value
    return Page(
        at,
        sums["vllm:num_requests_running"],
        sums["vllm:num_requests_waiting"],
        sums["vllm:kv_cache_usage_perc"],
        sums["vllm:generation_tokens_total"],
        latency,
    )


def tokens_per_second(pages: list[Page]) -> float:
    """Tokens generated between the first and the last page, a second."""
    return (pages[-1].generated - pages[0].generated) / (pages[-1].at - pages[0].at)


def latency_bucket_of_p99(pages: list[Page]) -> tuple[float, float]:
    """Bounds in seconds of the bucket that holds the 99th percentile of what finished between first and last page."""
    grown = {bound: count - pages[0].latency[bound] for bound, count in pages[-1].latency.items()}
    bounds, total = sorted(grown), max(grown.values())
    assert total > 0
    index = next(i for i, bound in enumerate(bounds) if grown[bound] >= 0.99 * total)
    return (bounds[index - 1] if index else 0.0), bounds[index]

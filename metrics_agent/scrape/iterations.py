"""What trtllm-serve says where it has no Prometheus page: a JSON list of the iterations since the last look."""

from __future__ import annotations

from typing import Final

import msgspec

from metrics_agent.scrape.exposition import LARGEST_VALUE
from metrics_agent.scrape.reading import Reading
from metrics_agent.vendors import TRTLLM_SERVE

Count = float | int | None


class _KvCache(msgspec.Struct, rename="camel"):
    max_num_blocks: Count = None
    used_num_blocks: Count = None
    tokens_per_block: Count = None


class _Iteration(msgspec.Struct, rename="camel"):
    num_active_requests: Count
    num_queued_requests: Count = None
    kv_cache_stats: _KvCache | None = None


_decode: Final = msgspec.json.Decoder(list[_Iteration]).decode


def read_iterations(body: bytes) -> Reading:
    """The newest iteration. An empty list, and a body that is no such list, say nothing."""
    if body.lstrip()[:1] != b"[":
        return Reading()
    try:
        iterations = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Reading()
    return _reading(iterations[-1]) if iterations else Reading()


def _reading(newest: _Iteration) -> Reading:
    kv = newest.kv_cache_stats or _KvCache()
    most, used, size = _count(kv.max_num_blocks), _count(kv.used_num_blocks), _count(kv.tokens_per_block)
    return Reading(
        vendor=TRTLLM_SERVE.name,
        running=_count(newest.num_active_requests),
        waiting=_count(newest.num_queued_requests),
        kv_used_ratio=min(1.0, used / most) if most and used is not None else None,
        kv_capacity_tokens=_count(most * size) if most and size else None,
        block_size=size or None,
    )


def _count(value: Count) -> int | None:
    return int(value) if value is not None and 0 <= value <= LARGEST_VALUE else None

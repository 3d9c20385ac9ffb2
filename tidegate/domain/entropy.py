"""How mixed a replica's requests are: Shannon entropy of their classes within a rolling window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from zlib import crc32

from tidegate.domain.request import RequestInfo

BUCKETS: Final = 32
"""Classes are hashed into so many: enough that common ones seldom share one, few enough to publish each second."""
SPAN_SECONDS: Final = 60
"""How long a request counts: as long as the p99 looks back."""
FEWEST: Final = 20
"""Requests without which the mix is unknown: fewer cannot be mixed, whoever sends them."""
_CHARS_OF_TOKEN: Final = 4


def class_of(info: RequestInfo) -> int:
    """The class of a request, 0…BUCKETS − 1: endpoint kind, prompt and output length in steps of four, media.

    Equal requests have equal classes in every process and release. A limit that is absent is a step of its own.
    """
    prompt = info.prompt_chars // _CHARS_OF_TOKEN + (info.prompt_tokens or 0)
    output = None if info.max_output_tokens is None else _step(info.max_output_tokens)
    media = ",".join(sorted(str(kind) for kind, count in info.media.items() if count)) if info.media else ""
    pixels = 0 if info.image is None else (info.image.width or 0) * (info.image.height or 0) * info.image.images
    return _bucket(str(info.api), _step(prompt), output, media, _step(pixels))


@lru_cache(maxsize=4096)
def _bucket(api: str, prompt: int, output: int | None, media: str, pixels: int) -> int:
    return crc32(f"{api}|{prompt}|{output}|{media}|{pixels}".encode()) % BUCKETS


def _step(size: int) -> int:
    """0 for 0, 1 for 1…3, 2 for 4…15, 3 for 16…63 and so on."""
    return (size.bit_length() + 1) // 2


def merged(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The counts of several pickers as one."""
    total: dict[int, int] = {}
    for one in counts:
        for bucket, count in one.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def normal_entropy(counts: Mapping[int, int]) -> float | None:
    """H / ln(BUCKETS) with H = −Σ pᵢ·ln(pᵢ): 0 when all requests are alike, 1 when every class is equally frequent.

    `counts` are requests by class; counts below 1 are left out. None under FEWEST requests. Equal counts give equal
    results whichever the classes are. Source: Shannon, A Mathematical Theory of Communication (1948), section 6.
    """
    present = [count for count in counts.values() if count > 0]
    total = sum(present)
    if total < FEWEST:
        return None
    entropy = math.log(total) - sum(count * math.log(count) for count in present) / total
    return min(1.0, max(0.0, entropy / math.log(BUCKETS)))

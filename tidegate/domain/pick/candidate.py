"""What a pick looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.domain.sample import EndpointSample


@dataclass(frozen=True, slots=True)
class Candidate:
    """One replica of the cluster.

    `address` is its identity in Redis (`host:port`), `destination` the `ip:port` that Envoy knows it by (None
    until its host name is resolved), `sample` the newest one (None: never seen), `weight` what the controller
    published, 0…1000 (None: nothing yet).
    """

    address: str
    destination: str | None = None
    sample: EndpointSample | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """When and in which situation the pick happens.

    `dispatched` counts our own requests by address that no sample has seen yet; an absent address has none.
    `rotation` is any number that grows by one a pick: it decides between equals.
    """

    now_ms: int
    sample_ttl_ms: int
    dispatched: Mapping[str, int]
    rotation: int

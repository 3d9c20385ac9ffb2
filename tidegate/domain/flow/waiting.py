"""A request that waits, as its queue sees it."""

from __future__ import annotations

import msgspec


class Waiting(msgspec.Struct, eq=False, kw_only=True):
    """Whoever queues requests adds what it needs by a subclass.

    `cost` is the request's estimated work, above 0, in any unit that is the same within a cluster; `weight` is that of
    its class. `arrived_ms` and `deadline_ms` are Unix milliseconds. `passed` counts the requests that went before it
    while it found no room.
    """

    priority: int = 0
    class_name: str
    user: str = ""
    weight: float = 1.0
    cost: float = 1.0
    size_bytes: int = 0
    arrived_ms: int = 0
    deadline_ms: int = 0
    passed: int = 0

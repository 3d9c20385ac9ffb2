"""The last requests as they were understood, for operators and tests: counts and names, never prompts."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from tidegate.domain.refusal import Refusal
from tidegate.domain.request import RequestInfo

KEPT: Final = 256

Read = dict[str, Any]
"""What was understood of one request."""


class RecentRequests:
    """What was read from the last KEPT requests, and what became of each. Belongs to the event loop.

    A decision calls `read`, then `sent` or `refused` with what that gave, perhaps after others; one that cannot be
    read calls `refused` alone.
    """

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def read(self, path: str, info: RequestInfo) -> Read:
        """A body was understood."""
        return {"path": path, "request": told(info)}

    def sent(
        self, cluster: str, written_model: str | None, destinations: tuple[str, ...], read: Read | None = None
    ) -> None:
        """The request that was read goes there; `written_model` is the name that its body was given."""
        sent = {"cluster": cluster, "written_model": written_model, "destinations": list(destinations)}
        self._kept.append({**(read or {}), "refused": None, **sent})

    def refused(self, path: str, refusal: Refusal, read: Read | None = None) -> None:
        """The request was answered instead."""
        why = {"reason": refusal.reason.value, "message": refusal.message}
        self._kept.append({"path": path, "request": None, **(read or {}), "refused": why})

    def last(self, count: int) -> list[dict[str, Any]]:
        """The newest `count`, oldest first. JSON-able."""
        return list(self._kept)[-count:] if count > 0 else []


def told(info: RequestInfo) -> dict[str, Any]:
    """Every field of `info`. A secret is told as being there; fingerprints of the prompt as their number."""
    fields: dict[str, Any] = msgspec.to_builtins(info)
    fields["affinity"]["cache_salt"] = None if info.affinity.cache_salt is None else True
    fields["prefix"] = len(info.prefix)
    del fields["prefix_chars"], fields["prefix_ids"]
    return fields

"""What is read from a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """The part of a body that decides where it goes.

    `model` is None when the body names none (absent or null); `stream` is whether it asks for events.
    """

    model: str | None
    stream: bool

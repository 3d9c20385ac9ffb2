"""An answer that is not there yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Later:
    """What a session answers when the request has to wait.

    `first` is sent at once: it asks Envoy for time. `answer` is sent when it is done; a transport whose stream ends
    before cancels it, and so frees the request's place. An answer that failed is a crash of the session.
    """

    first: bytes
    answer: asyncio.Future[bytes]


Reply = bytes | Later
"""What a session says to one message."""

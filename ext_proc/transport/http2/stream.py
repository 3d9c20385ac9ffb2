"""The state of one stream, as section 5.1 draws it for a server that never pushes.

idle ──HEADERS──▶ open ──their END_STREAM──▶ half-closed (remote) ──our END_STREAM──▶ closed
                    └────────── RST_STREAM of either side ────────────────────────────▲
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ext_proc.transport.http2.headers import RequestHeaders


class Stream:
    """An open or half-closed stream; a closed one is forgotten. `call` belongs to the connection's handler.

    `heard`: something was answered on it. `lingers`: its answer ends our half alone, and theirs may go on. `pending` is
    what waits for a window, made for the few streams that wait; `sent` are bytes of those parts that left.
    """

    __slots__ = (
        "announced",
        "call",
        "ended_by_peer",
        "heard",
        "id",
        "lingers",
        "pending",
        "received",
        "request",
        "send_window",
        "sent",
        "window",
    )  # fmt: skip

    def __init__(self, stream_id: int, request: RequestHeaders, send_window: int, window: int) -> None:
        self.id, self.request = stream_id, request
        self.call: Any = None
        self.ended_by_peer = self.heard = self.lingers = False
        self.announced = request.content_length
        self.received = 0
        self.sent = 0
        self.window = window
        self.send_window = send_window
        self.pending: deque[tuple[int, memoryview, bool]] | None = None

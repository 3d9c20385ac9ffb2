"""What goes to the client: frames in order, within its windows and its largest frame (RFC 9113, section 5.2)."""

from __future__ import annotations

from collections import deque
from typing import Final

from ext_proc.transport.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    HEADERS,
    LARGEST_WINDOW,
    LEAST_MAX_FRAME,
    ErrorCode,
    Http2ConnectionError,
    Http2StreamError,
    frame,
)
from ext_proc.transport.http2.stream import Stream

_NO_TABLE: Final = b"\x20"
"""A dynamic table of size 0 for what we send (RFC 7541, section 6.3): it fits whatever size the client allows."""
_COST_OF_A_PART: Final = 256
"""Bytes that a part which waits costs beside its own."""


class Sender:
    """The outgoing half of a connection. `take` empties it; `urgent` says that somebody waits for what is in it."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._window = FIRST_WINDOW
        self._by_own: dict[int, Stream] = {}
        self._by_connection: dict[int, Stream] = {}
        self._emptied: list[Stream] = []
        self._max_frame = LEAST_MAX_FRAME
        self._said_no_table = False
        self.urgent = False
        self.first_window = FIRST_WINDOW
        self.waiting_bytes = 0

    @property
    def has_output(self) -> bool:
        """Whether `take` would give anything."""
        return bool(self._out)

    @property
    def due(self) -> int:
        """Frames that `take` would give."""
        return len(self._out)

    @property
    def blocked(self) -> tuple[Stream, ...]:
        """Streams whose answers wait for a window, their own or the connection's."""
        return (*self._by_own.values(), *self._by_connection.values())

    def take_emptied(self) -> list[Stream]:
        """Streams of which nothing waits any more, since the last call."""
        emptied, self._emptied = self._emptied, []
        return emptied

    def take(self) -> bytes:
        """Everything that is due, as one."""
        out, self._out, self.urgent = self._out, [], False
        return out[0] if len(out) == 1 else b"".join(out)

    def write(self, data: bytes) -> None:
        """Frames that no window holds back."""
        self._out.append(data)
        self.urgent = True

    def headers(self, stream: Stream, block: bytes, *, end: bool = False, urgent: bool = True) -> None:
        """A header block, of less than 16 KiB, behind the data of its stream that still waits."""
        if stream.pending:
            self._wait(stream, HEADERS, block, end=end)
            return
        if not self._said_no_table:
            self._said_no_table, block = True, _NO_TABLE + block
        self._out.append(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream.id, block))
        self.urgent = self.urgent or urgent

    def data(self, stream: Stream, data: bytes, *, end: bool = False) -> None:
        """Data of a stream: at once as far as the windows go, the rest when they open."""
        size = len(data)
        if not stream.pending and size <= self._max_frame and size <= stream.send_window and size <= self._window:
            stream.send_window -= size
            self._window -= size
            self._out.append(frame(DATA, END_STREAM if end else 0, stream.id, data))
            self.urgent = True
            return
        self._wait(stream, DATA, data, end=end)
        self._flush(stream)

    def _wait(self, stream: Stream, kind: int, data: bytes, *, end: bool) -> None:
        if stream.pending is None:
            stream.pending = deque()
        stream.pending.append((kind, memoryview(data), end))
        self.waiting_bytes += len(data) + _COST_OF_A_PART

    def forget(self, stream: Stream) -> None:
        """The stream is closed: what waits for it is dropped."""
        if stream.pending:
            self.waiting_bytes -= waiting_bytes(stream)
            stream.pending.clear()
        self._unblock(stream)

    def opened(self, stream: Stream | None, increment: int) -> None:
        """The client's WINDOW_UPDATE, of a stream or of the connection. Raises faults of type FLOW_CONTROL_ERROR."""
        if stream is not None:
            if stream.send_window + increment > LARGEST_WINDOW:
                raise Http2StreamError(stream.id, ErrorCode.FLOW_CONTROL_ERROR, "window over 2^31-1")
            stream.send_window += increment
            self._flush(stream)
            return
        if self._window + increment > LARGEST_WINDOW:
            raise Http2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "connection window over 2^31-1")
        self._window += increment
        self._flush_shared()

    def _flush_shared(self) -> None:
        """Use the connection's window. A stream that takes nothing of it waits for its own from then on."""
        while self._window > 0 and self._by_connection:
            self._flush(next(iter(self._by_connection.values())))

    def resized(self, first_window: int, streams: dict[int, Stream]) -> None:
        """The client's SETTINGS_INITIAL_WINDOW_SIZE changed; windows may become negative (section 6.9.2).

        What they now let out goes with `resume`: behind the acknowledgement, by which the client applies it too.
        """
        difference = first_window - self.first_window
        self.first_window = first_window
        for stream in tuple(streams.values()):
            if stream.send_window + difference > LARGEST_WINDOW:
                raise Http2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "window over 2^31-1")
            stream.send_window += difference

    def resume(self) -> None:
        """Send what windows let out that were resized."""
        for stream in [one for one in self._by_own.values() if one.send_window > 0]:
            self._flush(stream)
        self._flush_shared()

    def reframed(self, max_frame: int) -> None:
        """The client's SETTINGS_MAX_FRAME_SIZE."""
        self._max_frame = max_frame

    def _flush(self, stream: Stream) -> None:
        pending = stream.pending
        while pending:
            kind, view, end = pending[0]
            if kind == HEADERS:
                pending.popleft()
                self.waiting_bytes -= len(view) + _COST_OF_A_PART
                rest = tuple(pending)
                pending.clear()
                self.headers(stream, bytes(view), end=end)
                pending.extend(rest)
                continue
            size = min(len(view), stream.send_window, self._window, self._max_frame)
            if size <= 0 and len(view):
                self._block(stream)
                return
            self._part(stream, view[: max(0, size)], end=end and size == len(view))
            if size == len(view):
                pending.popleft()
                self.waiting_bytes -= _COST_OF_A_PART
            else:
                pending[0] = (DATA, view[size:], end)
        if self._unblock(stream):
            self._emptied.append(stream)

    def _block(self, stream: Stream) -> None:
        """It waits for the window that is shut: an update of the other need not look at it."""
        shut, other = self._by_connection, self._by_own
        if stream.send_window <= 0:
            shut, other = other, shut
        other.pop(stream.id, None)
        shut[stream.id] = stream

    def _unblock(self, stream: Stream) -> bool:
        """It waits for no window. Whether it did."""
        own, shared = self._by_own.pop(stream.id, None), self._by_connection.pop(stream.id, None)
        return own is not None or shared is not None

    def _part(self, stream: Stream, view: memoryview, *, end: bool) -> None:
        stream.send_window -= len(view)
        stream.sent += len(view)
        self._window -= len(view)
        self.waiting_bytes -= len(view)
        self._out.append(frame(DATA, END_STREAM if end else 0, stream.id, bytes(view)))
        self.urgent = True


def waiting_bytes(stream: Stream) -> int:
    """What the answers of a stream cost that wait for a window."""
    return sum(len(view) + _COST_OF_A_PART for _, view, _ in stream.pending or ())

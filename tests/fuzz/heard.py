"""What a client makes of the server's bytes, read by `hyperframe` and `hpack`. Anything a client may not hear raises."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hpack import Decoder
from hyperframe import frame as h2

from ext_proc.transport.http2.frames import FIRST_WINDOW, LEAST_MAX_FRAME, SETTINGS, WINDOW_UPDATE, Setting
from tests.fuzz.conversation import Frame


@dataclass
class Heard:
    """One connection's answers. `exact` also holds the server to the windows that `grant` told."""

    exact: bool = False
    bodies: dict[int, bytes] = field(default_factory=dict)
    status: dict[int, bytes] = field(default_factory=dict)
    reset: set[int] = field(default_factory=set)
    goaway: int | None = None
    _decoder: Decoder = field(default_factory=Decoder)
    _first: bool = True
    _window: int = FIRST_WINDOW
    _first_window: int = FIRST_WINDOW
    _first_windows: deque[int | None] = field(default_factory=lambda: deque([None]))
    _granted: dict[int, int] = field(default_factory=dict)

    def grant(self, said: Frame) -> None:
        """A frame of the client that opens a window. First windows change as the server acknowledges them."""
        if said.kind == WINDOW_UPDATE:
            size = int.from_bytes(said.payload, "big")
            if said.stream:
                self._granted[said.stream] = self._granted.get(said.stream, 0) + size
            else:
                self._window += size
        elif said.kind == SETTINGS and not said.flags & 1:
            pairs = [said.payload[at : at + 6] for at in range(0, len(said.payload), 6)]
            of_windows = Setting.INITIAL_WINDOW_SIZE.to_bytes(2, "big")
            sizes = [int.from_bytes(pair[2:], "big") for pair in pairs if pair[:2] == of_windows]
            self._first_windows.append(sizes[-1] if sizes else None)

    def hear(self, raw: bytes) -> None:
        """Whole frames."""
        view, at = memoryview(raw), 0
        while at < len(raw):
            one, length = h2.Frame.parse_frame_header(view[at : at + 9], strict=True)
            assert length <= LEAST_MAX_FRAME, f"a frame of {length} bytes"
            assert at + 9 + length <= len(raw), "half a frame"
            one.parse_body(view[at + 9 : at + 9 + length])
            at += 9 + length
            self._frame(one, length)

    def _frame(self, one: Any, length: int) -> None:
        assert self.goaway is None, f"{one} behind an error"
        assert isinstance(one, h2.SettingsFrame) or not self._first, "not SETTINGS first"
        self._first = False
        if isinstance(one, h2.DataFrame):
            self._data(one, length)
        elif isinstance(one, h2.HeadersFrame):
            self._headers(one)
        elif isinstance(one, h2.RstStreamFrame):
            assert one.stream_id, "a reset of no stream"
            self.reset.add(one.stream_id)
        elif isinstance(one, h2.SettingsFrame):
            if "ACK" in one.flags and self.exact:
                size = self._first_windows.popleft()
                self._first_window = self._first_window if size is None else size
        elif isinstance(one, h2.GoAwayFrame):
            self.goaway = one.error_code
        else:
            assert isinstance(one, h2.WindowUpdateFrame | h2.PingFrame), one

    def _data(self, one: Any, length: int) -> None:
        stream = one.stream_id
        assert stream in self.bodies, f"DATA before HEADERS on {stream}"
        assert not self._is_over(stream), f"DATA behind the end of {stream}"
        self.bodies[stream] += one.data
        if "END_STREAM" in one.flags:
            self.status.setdefault(stream, b"")
        self._window -= length
        if self.exact and length:
            room = self._first_window + self._granted.get(stream, 0) - len(self.bodies[stream])
            assert min(room, self._window) >= 0, f"{room}, {self._window} left of the windows of {stream}"

    def _headers(self, one: Any) -> None:
        stream, fields = one.stream_id, dict(self._decoder.decode(one.data, raw=True))
        assert (stream % 2, "END_HEADERS" in one.flags) == (1, True), one
        assert not self._is_over(stream), f"HEADERS behind the end of {stream}"
        assert (b":status" in fields) is (stream not in self.bodies), f"{fields} on {stream}"
        self.bodies.setdefault(stream, b"")
        if "END_STREAM" in one.flags:
            self.status[stream] = fields.get(b"grpc-status", fields.get(b":status", b""))
        else:
            assert b":status" in fields, "a second section without an end"

    def _is_over(self, stream: int) -> bool:
        return stream in self.status or stream in self.reset

"""One client's connection: frames in, what they mean to the handler, frames out.

The hot path is HEADERS and DATA; every other type has its own small handler. A DATA frame is passed on as it comes
in, without waiting for its end, so that a body is not copied here. The file is long because the handlers of all types
share streams, windows and accounts of cost, which a split would hand around for every frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    FRAME_HEADER,
    HEADER_BYTES,
    HEADERS,
    LARGEST_WINDOW,
    LEAST_MAX_FRAME,
    MOST_MAX_FRAME,
    PADDED,
    PREFACE,
    PRIORITY_FLAG,
    SETTINGS,
    U32,
    WINDOW_UPDATE,
    ErrorCode,
    Http2ConnectionError,
    Http2StreamError,
    Setting,
)
from ext_proc.transport.http2.headers import HeaderReader, MalformedError
from ext_proc.transport.http2.limits import Bucket, Limits
from ext_proc.transport.http2.sending import Sender
from ext_proc.transport.http2.stream import Stream

_STREAM_BITS: Final = 0x7FFF_FFFF
_MOST_REMEMBERED: Final = 1024
_COST_OF_A_RESIZE: Final = 0.02
"""Of each open stream, when the client changes the first window of all, in frames that ask for nothing."""
_MOST_DUE: Final = 8
"""Frames, of some four answers, that wait for the rest of what was received in one go: the client works on those that
it has while the rest is read, and a write for each answer would cost more than the answer."""
_DRAIN: Final = b"draining"
"""Payload of the PING behind the GOAWAY that announces the end; the one for quiet clients has another."""
_DEFAULTS: Final = Limits()


class Handler(Protocol):
    """Who answers requests. Called while bytes are received; calls back `Connection.send_*` and `reset`."""

    def opened(self, stream: Stream) -> None:
        """A request began; its header section is `stream.request`."""

    def data(self, stream: Stream, chunk: memoryview) -> None:
        """A part of its body."""

    def ended(self, stream: Stream) -> None:
        """Its body is whole."""

    def gone(self, stream: Stream) -> None:
        """The stream is over before it was answered to its end: nothing may be sent on it any more."""


class Connection:
    """The server side of one connection. `now` is in seconds, of a clock that only goes forward.

    `write` takes frames that are due while more of what was received is still to be read; without it all are there for
    `sender.take()` afterwards.
    """

    def __init__(
        self, handler: Handler, limits: Limits = _DEFAULTS, write: Callable[[bytes], object] | None = None
    ) -> None:
        self.sender = Sender()
        self.streams: dict[int, Stream] = {}
        self.closed = False
        self.settings_acknowledged = False
        self._announced = self.drained = False
        self.fault: Http2ConnectionError | None = None
        self._handler, self._limits, self._write = handler, limits, write
        self._rest = b""
        self._began = self._saw_settings = False
        self._headers = HeaderReader(limits.max_header_list_bytes)
        self._block: _Block | None = None
        self._data: _Data | None = None
        self._highest = 0
        self._skipped: deque[tuple[int, int]] = deque(maxlen=_MOST_REMEMBERED)
        self._last_accepted = LARGEST_WINDOW
        self._reset_by_us: dict[int, None] = {}
        self._closing: dict[int, Stream] = {}
        self._window = limits.connection_window_bytes
        self._idle = Bucket(limits.idle_frames, limits.idle_frames_per_second)
        self._resets = Bucket(limits.resets, limits.resets_per_second)
        self._heard = 0  # streams that got an answer, for each of which one reset is the client's good right
        self._now = 0.0
        self._asked_at: float | None = None
        self._stuck: dict[int, tuple[int, float]] = {}
        self._handlers: Mapping[int, Callable[[int, int, memoryview], None]] = {
            DATA: self._on_data,
            HEADERS: self._on_headers,
            frames.PRIORITY: self._on_priority,
            frames.RST_STREAM: self._on_reset,
            SETTINGS: self._on_settings,
            frames.PUSH_PROMISE: self._on_push_promise,
            frames.PING: self._on_ping,
            frames.GOAWAY: self._on_goaway,
            WINDOW_UPDATE: self._on_window_update,
            CONTINUATION: self._on_continuation,
        }
        self._greet()

    # What the transport calls.

    def receive(self, data: bytes, now: float) -> None:
        """Bytes of the client. Afterwards `sender.take()` may have something, and `closed` may be set."""
        if self.closed:
            return
        self._now = now
        try:
            self._receive(self._rest + data if self._rest else data)
        except Http2ConnectionError as exc:
            self.close(exc)

    def tick(self, now: float) -> None:
        """To be called every few seconds: what the client leaves undone has its time. Then as after `receive`."""
        if self.closed or not self._began:
            return
        try:
            self._ask_the_quiet(now)
            self._end_the_stuck(now)
        except Http2ConnectionError as exc:
            self.close(exc)

    def lost(self) -> None:
        """The client is gone: every stream is over."""
        self.closed = True
        self._rest, self._block, self._data = b"", None, None
        streams, self.streams = tuple(self.streams.values()), {}
        self._closing.clear()
        for stream in streams:
            self.sender.forget(stream)
            self._handler.gone(stream)

    def close(self, fault: Http2ConnectionError) -> None:
        """End the connection with GOAWAY; every stream is over."""
        if not self.closed:
            self.fault = fault
            self.sender.write(frames.goaway(min(self._highest, self._last_accepted), fault.code, str(fault)))
            self.lost()

    def drain(self) -> None:
        """Announce the end: streams that are under way, or on the line, are still served (section 6.8).

        `drained` is set once the client has heard of it and what it sent before was read.
        """
        if not self._announced and not self.closed:
            self._announced = True
            self.sender.write(
                frames.goaway(LARGEST_WINDOW, ErrorCode.NO_ERROR, "draining") + frames.frame(frames.PING, 0, 0, _DRAIN)
            )

    def refuse_more(self) -> None:
        """From here on no stream is accepted; those that are open go on."""
        if self._last_accepted == LARGEST_WINDOW and not self.closed:
            self._last_accepted = self._highest
            self.sender.write(frames.goaway(self._highest, ErrorCode.NO_ERROR, "draining"))

    # What the handler calls.

    def send_headers(self, stream: Stream, block: bytes, *, end: bool = False, urgent: bool = True) -> None:
        """A header section or, with `end`, trailers. Of some that are not `urgent`, nobody waits for the word."""
        if not stream.heard:
            stream.heard = True
            self._heard = min(self._heard + 1, self._limits.resets)
        self.sender.headers(stream, block, end=end, urgent=urgent)
        self._bound_what_waits()
        if end:
            self._answered(stream)

    def send_data(self, stream: Stream, data: bytes) -> None:
        """A part of the answer's body."""
        self.sender.data(stream, data)
        self._bound_what_waits()

    def send_whole(self, stream: Stream, block: bytes, body: bytes) -> None:
        """An answer that asks for no reset: what else the client sends on the stream is checked, and dropped."""
        stream.lingers = True
        self.send_headers(stream, block, end=not body)
        if body:
            self.sender.data(stream, body, end=True)
            self._bound_what_waits()
            self._answered(stream)

    def _bound_what_waits(self) -> None:
        """Too much that waits for windows ends the connection."""
        if self.sender.waiting_bytes > self._limits.max_waiting_bytes:
            self.close(Http2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many answers wait to be read"))

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream from here. The handler is not told."""
        if self._popped(stream.id) is not None:
            self._remember(stream.id)
            self.sender.write(frames.reset(stream.id, code))

    # Sending.

    def _greet(self) -> None:
        limits = self._limits
        self.sender.write(
            frames.settings(
                {
                    Setting.HEADER_TABLE_SIZE: limits.header_table_bytes,
                    Setting.MAX_CONCURRENT_STREAMS: limits.max_concurrent_streams,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
                    Setting.MAX_FRAME_SIZE: limits.max_frame_bytes,
                    Setting.MAX_HEADER_LIST_SIZE: limits.max_header_list_bytes,
                }
            )
            + frames.window_update(0, limits.connection_window_bytes - FIRST_WINDOW)
        )

    def _answered(self, stream: Stream) -> None:
        """Our END_STREAM is sent, or waits behind data that no window lets out yet."""
        if stream.pending:
            self._closing[stream.id] = stream
        else:
            self._finished(stream)

    def _finished(self, stream: Stream) -> None:
        if (stream.lingers and not stream.ended_by_peer) or self._popped(stream.id) is None:
            return
        if not stream.ended_by_peer:  # section 8.1: the answer is whole, the rest of the request is not wanted
            self._remember(stream.id)
            self.sender.write(frames.reset(stream.id, ErrorCode.NO_ERROR))

    def _popped(self, stream_id: int) -> Stream | None:
        """The stream, if it was open; nothing waits for it any more."""
        stream = self.streams.pop(stream_id, None)
        if stream is not None:
            self._closing.pop(stream_id, None)
            self.sender.forget(stream)
        return stream

    def _remember(self, stream_id: int) -> None:
        """Frames that the client sent before it heard of our reset are ignored."""
        self._reset_by_us[stream_id] = None
        if len(self._reset_by_us) > _MOST_REMEMBERED:
            del self._reset_by_us[next(iter(self._reset_by_us))]

    # Time.

    def _ask_the_quiet(self, now: float) -> None:
        if now - self._now < self._limits.quiet_seconds:
            self._asked_at = None
        elif self._asked_at is None:
            self._asked_at = now
            self.sender.write(frames.frame(frames.PING, 0, 0, b"tidegate"))
        elif now - self._asked_at >= self._limits.answer_seconds:
            raise Http2ConnectionError(ErrorCode.NO_ERROR, "a silent client")

    def _end_the_stuck(self, now: float) -> None:
        """Reset streams of whose answers nothing left for too long. An answer that grows meanwhile is no progress."""
        still: dict[int, tuple[int, float]] = {}
        for stream in self.sender.blocked:
            sent, since = self._stuck.get(stream.id, (stream.sent, now))
            if stream.sent > sent:
                sent, since = stream.sent, now
            if now - since >= self._limits.stuck_seconds:
                self._fail(Http2StreamError(stream.id, ErrorCode.ENHANCE_YOUR_CALM, "an answer that nobody reads"))
            else:
                still[stream.id] = sent, since
        self._stuck = still

    # Receiving.

    def _receive(self, data: bytes) -> None:
        position = 0 if self._began else self._preface(data)
        if position is None:
            return
        end, most = len(data), self._limits.max_frame_bytes
        view = memoryview(data)
        while not self.closed:
            under_way = self._data
            if under_way is not None:
                position = self._more_data(view, position)
                if under_way.left:
                    break
            if end - position < HEADER_BYTES:
                break
            high, low, kind, flags, stream_id = FRAME_HEADER.unpack_from(data, position)
            length = high << 8 | low
            if length > most:
                raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = position + HEADER_BYTES
            if end - begin < length:
                if kind != DATA or flags & PADDED:
                    break
                self._expected(kind)
                stream = self._begin_data(stream_id & _STREAM_BITS, flags, length)
                self._data, position = _Data(stream, length, bool(flags & END_STREAM)), begin
                continue
            position = begin + length
            self._frame(kind, flags, stream_id & _STREAM_BITS, view[begin:position])
        self._rest = data[position:] if position < end and not self.closed else b""

    def _preface(self, data: bytes) -> int | None:
        if not PREFACE.startswith(data[: len(PREFACE)]):
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "not the preface of HTTP/2")
        if len(data) < len(PREFACE):
            self._rest = data
            return None
        self._began = True
        return len(PREFACE)

    def _frame(self, kind: int, flags: int, stream_id: int, payload: memoryview) -> None:
        self._expected(kind)
        handler = self._handlers.get(kind)
        if handler is None:  # section 4.1: a type that nobody knows is ignored
            self._costs(1.0)
            return
        try:
            handler(stream_id, flags, payload)
        except Http2StreamError as exc:
            self._fail(exc)

    def _expected(self, kind: int) -> None:
        if self._block is not None and kind != CONTINUATION:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "a frame inside a header block")
        if not self._saw_settings and kind != SETTINGS:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")

    def _fail(self, fault: Http2StreamError) -> None:
        if self.closed:  # by an answer to the same frame: nothing follows GOAWAY
            return
        if self._is_idle(fault.stream_id):  # which cannot be reset (section 6.4)
            raise Http2ConnectionError(fault.code, str(fault))
        stream = self._popped(fault.stream_id)
        self._remember(fault.stream_id)
        self.sender.write(frames.reset(fault.stream_id, fault.code))
        if stream is not None:
            self._handler.gone(stream)
        self._costs(1.0)

    def _costs(self, cost: float) -> None:
        if not self._idle.take(self._now, cost):
            raise Http2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    # DATA (6.1)

    def _on_data(self, stream_id: int, flags: int, payload: memoryview) -> None:
        """A whole frame."""
        body = _unpadded(payload, flags)
        stream = self._begin_data(stream_id, flags, len(payload), len(payload) - len(body))
        if stream is not None:
            if flags & END_STREAM:  # an answer to this very frame knows it
                stream.ended_by_peer = True
            self._content(stream, body)
            self._data_ended(stream, end=bool(flags & END_STREAM))

    def _begin_data(self, stream_id: int, flags: int, length: int, padding: int = 0) -> Stream | None:
        """A DATA frame starts, `padding` of whose bytes are no content; the stream that it is for.

        One for a stream that is not open is read and dropped; its bytes count (section 5.2).
        """
        self._take_window(length)
        stream = self._receiving(stream_id)
        if stream is not None:
            try:
                self._admit_data(stream, flags, length, padding)
            except Http2StreamError as exc:
                self._fail(exc)
                stream = None
        if length == padding and not flags & END_STREAM:
            self._costs(1.0)
        return stream

    def _receiving(self, stream_id: int) -> Stream | None:
        stream = self.streams.get(stream_id)
        if stream is not None and not stream.ended_by_peer:
            return stream
        self._must_not_be_idle(stream_id, "DATA")
        if stream_id not in self._reset_by_us:
            self._fail(Http2StreamError(stream_id, ErrorCode.STREAM_CLOSED, "DATA on a closed stream"))
        return None

    def _admit_data(self, stream: Stream, flags: int, length: int, padding: int) -> None:
        """Bounds of the stream: its window, and the length that its header section announced (8.1.1)."""
        stream.window -= length
        stream.received += length - padding
        if stream.window < 0:
            raise Http2StreamError(stream.id, ErrorCode.FLOW_CONTROL_ERROR, "more data than the window")
        announced = stream.announced
        if announced is not None:
            short = bool(flags & END_STREAM) and stream.received < announced
            if stream.received > announced or short:
                raise Http2StreamError(stream.id, ErrorCode.PROTOCOL_ERROR, "content-length is another")

    def _more_data(self, view: memoryview, position: int) -> int:
        """Pass on what there is of the DATA frame under way; the position behind it."""
        data = self._data
        assert data is not None
        until = min(len(view), position + data.left)
        data.left -= until - position
        stream = data.stream
        if stream is not None:
            if data.end and not data.left:
                stream.ended_by_peer = True
            self._content(stream, view[position:until])
        if not data.left:
            self._data = None
            if stream is not None:
                self._data_ended(stream, end=data.end)
        return until

    def _content(self, stream: Stream, chunk: memoryview) -> None:
        """Part of a body, unless the stream ended meanwhile; what that brings to answer does not wait for ever."""
        if len(chunk) and stream.id in self.streams:
            self._handler.data(stream, chunk)
            if self._write is not None and self.sender.due >= _MOST_DUE:
                self._write(self.sender.take())

    def _data_ended(self, stream: Stream, *, end: bool) -> None:
        if stream.id not in self.streams:
            return
        if end:
            self._peer_ended(stream)
        elif stream.window < self._limits.stream_window_bytes // 2 and not stream.lingers:
            self.sender.write(frames.window_update(stream.id, self._limits.stream_window_bytes - stream.window))
            stream.window = self._limits.stream_window_bytes

    def _peer_ended(self, stream: Stream) -> None:
        stream.ended_by_peer = True
        self._handler.ended(stream)
        if stream.lingers and not stream.pending:
            self._popped(stream.id)

    def _take_window(self, length: int) -> None:
        self._window -= length
        if self._window < 0:
            raise Http2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
        if self._window < self._limits.connection_window_bytes // 2:
            self.sender.write(frames.window_update(0, self._limits.connection_window_bytes - self._window))
            self._window = self._limits.connection_window_bytes

    # HEADERS (6.2), CONTINUATION (6.10)

    def _on_headers(self, stream_id: int, flags: int, payload: memoryview) -> None:
        if not stream_id & 1:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}")
        payload = _unpadded(payload, flags)
        if flags & PRIORITY_FLAG:
            if len(payload) < 5:
                raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without the priority that it announces")
            if _depends_on(payload) == stream_id:  # of the connection, as the block would have to be read all the same
                raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} depends on itself")
            payload = payload[5:]
        end = bool(flags & END_STREAM)
        if len(payload) > self._limits.max_header_block_bytes:
            raise Http2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "header block too long")
        if flags & END_HEADERS:
            self._section(stream_id, bytes(payload), end=end)
        else:
            self._block = _Block(stream_id, end)
            self._block.bytes += payload

    def _on_continuation(self, stream_id: int, flags: int, payload: memoryview) -> None:
        block = self._block
        if block is None or block.stream_id != stream_id:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without a header block")
        block.continuations += 1
        limits = self._limits
        too_long = len(block.bytes) + len(payload) > limits.max_header_block_bytes
        if too_long or block.continuations > limits.max_continuations:
            raise Http2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "header block too long")
        block.bytes += payload
        if flags & END_HEADERS:
            self._block = None
            self._section(stream_id, bytes(block.bytes), end=block.end)

    def _section(self, stream_id: int, block: bytes, *, end: bool) -> None:
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._trailers(stream, block, end=end)
        elif stream_id <= self._highest:
            self._late_section(stream_id, block)
        else:
            self._request(stream_id, block, end=end)

    def _request(self, stream_id: int, block: bytes, *, end: bool) -> None:
        if stream_id > self._highest + 2:
            self._skipped.append((self._highest, stream_id))
        self._highest = stream_id
        request = self._headers.request(block)
        if stream_id > self._last_accepted or len(self.streams) >= self._limits.max_concurrent_streams:
            raise Http2StreamError(stream_id, ErrorCode.REFUSED_STREAM, "no more streams")
        if isinstance(request, MalformedError):
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, str(request))
        stream = Stream(stream_id, request, self.sender.first_window, self._limits.stream_window_bytes)
        if end and stream.announced:
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "content-length is another")
        self.streams[stream_id] = stream
        if end:  # an answer at once knows it
            stream.ended_by_peer = True
        self._handler.opened(stream)
        if end and stream_id in self.streams:
            self._peer_ended(stream)

    def _trailers(self, stream: Stream, block: bytes, *, end: bool) -> None:
        malformed = self._headers.trailers(block)
        if stream.ended_by_peer:
            raise Http2StreamError(stream.id, ErrorCode.STREAM_CLOSED, "HEADERS on a half-closed stream")
        if malformed is not None or not end:
            raise Http2StreamError(stream.id, ErrorCode.PROTOCOL_ERROR, str(malformed or "trailers without END_STREAM"))
        if stream.announced is not None and stream.received != stream.announced:
            raise Http2StreamError(stream.id, ErrorCode.PROTOCOL_ERROR, "content-length is another")
        self._peer_ended(stream)

    def _late_section(self, stream_id: int, block: bytes) -> None:
        self._headers.trailers(block)  # the table has to follow, whatever the stream is
        if any(low < stream_id < high for low, high in self._skipped):  # never opened, and now too late (5.1.1)
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} after a higher one")
        if stream_id not in self._reset_by_us:
            raise Http2ConnectionError(ErrorCode.STREAM_CLOSED, f"HEADERS on closed stream {stream_id}")
        self._costs(1.0)

    # Everything else.

    def _on_priority(self, stream_id: int, _: int, payload: memoryview) -> None:
        if not stream_id:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        if len(payload) != 5:
            raise Http2StreamError(stream_id, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of another length than 5")
        if _depends_on(payload) == stream_id:
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
        self._costs(1.0)

    def _on_reset(self, stream_id: int, _: int, payload: memoryview) -> None:
        if len(payload) != 4:
            raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of another length than 4")
        self._must_not_be_idle(stream_id, "RST_STREAM")
        if self._heard:
            self._heard -= 1
        elif not self._resets.take(self._now):
            raise Http2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many streams reset")
        stream = self._popped(stream_id)
        if stream is not None:
            self._handler.gone(stream)

    def _on_settings(self, stream_id: int, flags: int, payload: memoryview) -> None:
        if stream_id:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % 6 or (flags & ACK and len(payload)):
            raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong length")
        self._saw_settings = True
        self._costs(max(1.0, len(payload) / frames.SETTING.size))
        if flags & ACK:
            self.settings_acknowledged = True
            return
        first_window = self.sender.first_window
        for key, value in frames.SETTING.iter_unpack(payload):
            if key == Setting.INITIAL_WINDOW_SIZE:
                first_window = value
            self._set(key, value)
        if first_window != self.sender.first_window:  # once a frame: it walks through all streams
            self._costs(len(self.streams) * _COST_OF_A_RESIZE)
            self.sender.resized(first_window, self.streams)
            self.sender.write(frames.SETTINGS_ACK)
            self.sender.resume()
            self._close_sent()
        else:
            self.sender.write(frames.SETTINGS_ACK)

    def _set(self, key: int, value: int) -> None:
        if key == Setting.ENABLE_PUSH and value > 1:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH {value}")
        if key == Setting.INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise Http2ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE {value}")
        elif key == Setting.MAX_FRAME_SIZE:
            if not LEAST_MAX_FRAME <= value <= MOST_MAX_FRAME:
                raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE {value}")
            self.sender.reframed(value)

    def _on_push_promise(self, stream_id: int, _: int, __: memoryview) -> None:
        raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"PUSH_PROMISE on stream {stream_id}")

    def _on_ping(self, stream_id: int, flags: int, payload: memoryview) -> None:
        if stream_id:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "PING of another length than 8")
        self._costs(1.0)
        if not flags & ACK:
            self.sender.write(frames.frame(frames.PING, ACK, 0, bytes(payload)))
        elif self._announced and bytes(payload) == _DRAIN:
            self.drained = True

    def _on_goaway(self, stream_id: int, _: int, payload: memoryview) -> None:
        """The client opens no more streams; those that are open go on."""
        if stream_id:
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of less than 8 bytes")
        self._costs(1.0)

    def _on_window_update(self, stream_id: int, _: int, payload: memoryview) -> None:
        if len(payload) != 4:
            raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE of another length than 4")
        increment = U32.unpack(payload)[0] & _STREAM_BITS
        self._costs(0.1)
        if not stream_id:
            if not increment:
                raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
            self.sender.opened(None, increment)
            self._close_sent()
            return
        self._must_not_be_idle(stream_id, "WINDOW_UPDATE")
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        if not increment:
            raise Http2StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
        self.sender.opened(stream, increment)
        self._close_sent()

    def _close_sent(self) -> None:
        """Streams whose last frame left now that windows opened."""
        for stream in self.sender.take_emptied():
            if stream.id in self._closing and not stream.pending:
                self._finished(stream)

    def _is_idle(self, stream_id: int) -> bool:
        """Never opened; even ones never are."""
        return not stream_id & 1 or stream_id > self._highest

    def _must_not_be_idle(self, stream_id: int, name: str) -> None:
        if self._is_idle(stream_id):
            raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, f"{name} on stream {stream_id}, which is not open")


class _Block:
    """A header block whose end has not come."""

    __slots__ = ("bytes", "continuations", "end", "stream_id")

    def __init__(self, stream_id: int, end: bool) -> None:
        self.stream_id, self.end = stream_id, end
        self.bytes = bytearray()
        self.continuations = 0


class _Data:
    """A DATA frame of which a part has come; without a stream it is dropped."""

    __slots__ = ("end", "left", "stream")

    def __init__(self, stream: Stream | None, left: int, end: bool) -> None:
        self.stream, self.left, self.end = stream, left, end


def _depends_on(priority: memoryview) -> int:
    """The stream that a priority names (RFC 7540, section 5.3.1, of which RFC 9113 keeps the frames alone)."""
    found: int = U32.unpack_from(priority)[0] & _STREAM_BITS
    return found


def _unpadded(payload: memoryview, flags: int) -> memoryview:
    if not flags & PADDED:
        return payload
    if not len(payload):
        raise Http2ConnectionError(ErrorCode.FRAME_SIZE_ERROR, "padding without its length")
    padding = payload[0]
    if padding >= len(payload):
        raise Http2ConnectionError(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - padding]

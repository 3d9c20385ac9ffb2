"""What one client may cost. Past a bound the connection ends with ENHANCE_YOUR_CALM, and others go on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one connection.

    max_concurrent_streams   open streams; one more is refused, which a client may repeat elsewhere
    max_header_list_bytes    of a request, by the rule of RFC 9113, section 6.5.2
    header_table_bytes       of fields that a client may refer back to; with 0 each block speaks for itself
    max_header_block_bytes   compressed, CONTINUATION frames together
    max_continuations        CONTINUATION frames of one block
    max_frame_bytes          payload of one frame, 16,384 to 16,777,215; Envoy sends none of more than 16,384
    stream_window_bytes      what a client may send on a stream ahead of being asked for more
    connection_window_bytes  the same for all streams together
    max_buffered_bytes       of messages that are not complete, all streams together
    max_waiting_bytes        of answers that wait for a window, all streams together
    stuck_seconds            how long an answer may wait for a window without any part of it leaving
    quiet_seconds, answer_seconds   after how long without a byte of the client it is sent a PING, and how long it has
                             to say anything: one that vanished without a FIN is silent for ever
    idle_frames, idle_frames_per_second   frames that ask for no work (PING, SETTINGS, PRIORITY, empty DATA, unknown
                             types …): a bucket and its refill; WINDOW_UPDATE counts a tenth
    resets, resets_per_second   streams that the client resets before it heard anything: a bucket and its refill. Envoy
                             ends every ext_proc stream by a reset once it has its answer, so one a stream that was
                             answered costs nothing; of such, `resets` are remembered
    """

    max_concurrent_streams: int = 4096
    max_header_list_bytes: int = 65_536
    header_table_bytes: int = 4096
    max_header_block_bytes: int = 65_536
    max_continuations: int = 16
    max_frame_bytes: int = 1 << 14
    stream_window_bytes: int = 1 << 26
    connection_window_bytes: int = 1 << 28
    max_buffered_bytes: int = 1 << 30
    max_waiting_bytes: int = 1 << 30
    stuck_seconds: float = 30.0
    quiet_seconds: float = 30.0
    answer_seconds: float = 20.0
    idle_frames: int = 2_000
    idle_frames_per_second: float = 200.0
    resets: int = 10_000
    resets_per_second: float = 1_000.0


class Bucket:
    """A token bucket. Times are seconds of a clock that only goes forward."""

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, most: float, rate: float) -> None:
        self._most, self._rate = most, rate
        self._left, self._at = most, 0.0

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Take `cost`; False when that much is not there."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= cost
        return self._left >= 0

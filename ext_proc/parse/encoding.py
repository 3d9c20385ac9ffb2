"""Content encodings: gzip and zstd are decoded for reading, under the size limit. What is forwarded stays encoded."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, Protocol

from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

from tidegate.domain.refusal import Reason, Refusal

ACCEPTED: Final = "gzip, zstd"
"""The value of `accept-encoding` in the answer to any other encoding (RFC 9110, section 15.5.16)."""

_GZIP: Final = frozenset({"gzip", "x-gzip"})
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS  # 16: a gzip header and trailer around the stream
_LEAST_ZSTD_WINDOW_LOG: Final = 23  # RFC 9659: every decoder of this encoding takes 8 MiB
_MOST_ZSTD_WINDOW_LOG: Final = 27
_MOST_MEMBERS: Final = 16
"""Streams that may follow one another in one body; each costs a copy of what remains."""


class _Stream(Protocol):
    """What zlib's and zstd's decompressors have in common."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def decoded(body: bytes, content_encoding: str | None, max_bytes: int) -> bytes:
    """`body` without its encoding; at most `max_bytes` long.

    Raises Refusal: body-too-large, unsupported-encoding, or invalid-request for bytes in another encoding than said.
    """
    _check_size(len(body), max_bytes)
    if not content_encoding:
        return body
    encodings = [name for part in (content_encoding or "").split(",") if (name := part.strip().lower()) != ""]
    encodings = [name for name in encodings if name != "identity"]
    if not encodings or not body:
        return body
    if len(encodings) == 1 and encodings[0] in _GZIP:
        return _members(body, max_bytes, "gzip", _gzip_stream)
    if encodings == ["zstd"]:
        return _members(body, max_bytes, "zstd", _zstd_stream)
    message = "The content-encoding of the body is not supported; send gzip, zstd or none."
    raise Refusal(Reason.UNSUPPORTED_ENCODING, message, headers=(("accept-encoding", ACCEPTED),))


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        message = f"The body has more than {max_bytes} bytes."
        raise Refusal(Reason.BODY_TOO_LARGE, message)


def _members(body: bytes, max_bytes: int, encoding: str, stream_of: Callable[[int], _Stream]) -> bytes:
    """The streams of `body`, one after the other, decoded and joined."""
    parts: list[bytes] = []
    size, rest = 0, body
    for _ in range(_MOST_MEMBERS):
        stream = stream_of(max_bytes)
        try:
            part = stream.decompress(rest, max_bytes + 1 - size)
        except (zlib.error, ZstdError) as exc:
            raise _lie(encoding) from exc
        parts.append(part)
        size += len(part)
        _check_size(size, max_bytes)
        if not stream.eof:
            raise _lie(encoding)
        rest = stream.unused_data.lstrip(b"\0")  # some writers pad with zeros to a block's end
        if not rest:
            return b"".join(parts)  # a single part is not copied
    raise _lie(encoding)


def _gzip_stream(_: int) -> _Stream:
    return zlib.decompressobj(_GZIP_WINDOW)


def _zstd_stream(max_bytes: int) -> _Stream:
    window_log = min(max(_LEAST_ZSTD_WINDOW_LOG, max_bytes.bit_length()), _MOST_ZSTD_WINDOW_LOG)
    return ZstdDecompressor(options={DecompressionParameter.window_log_max: window_log})


def _lie(encoding: str) -> Refusal:
    return Refusal(Reason.INVALID_REQUEST, f"The body is not the {encoding} that its content-encoding says.")

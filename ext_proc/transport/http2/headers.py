"""Header blocks: HPACK (RFC 7541) by the library `hpack`, and the rules of RFC 9113, section 8, for requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hpack import Decoder, HPACKError
from hpack.exceptions import OversizedHeaderListError

from ext_proc.transport.http2.frames import ErrorCode, Http2ConnectionError
from ext_proc.transport.http2.traceparent import LONGEST, Literal, split

_MOST_CACHED: Final = 256
_LONGEST_CACHED_BYTES: Final = 1024

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]")
_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_CONNECTION_SPECIFIC: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)


class MalformedError(Exception):
    """A request that breaks section 8: a stream error of type PROTOCOL_ERROR."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The header section of a request. `fields` are the others by lower-case name; of a repeated one, the last.

    `trace` is a traceparent that was not decoded and is not among the fields.
    """

    method: bytes
    path: bytes
    fields: dict[bytes, bytes]
    trace: Literal | None = None

    @property
    def traceparent(self) -> bytes | None:
        """The field of that name; None when there is none, when it is not sampled, and when its code is broken."""
        if self.trace is None:
            return self.fields.get(b"traceparent")
        try:
            return None if self.trace.unsampled else self.trace.decoded()
        except HPACKError:
            return None

    @property
    def content_length(self) -> int | None:
        """The announced length; None when there is none. Raises MalformedError when it is no number."""
        text = self.fields.get(b"content-length")
        if text is None:
            return None
        if not re.fullmatch(rb"[0-9]{1,18}", text):
            raise MalformedError("content-length is no number")
        return int(text)


Block = RequestHeaders | MalformedError


class HeaderReader:
    """Decodes the blocks of one connection, in order.

    Envoy's blocks are the same bytes once its fields are in the dynamic table; `:path` is never in it. Such a block is
    looked up, for as long as no other kind of block came, which might have changed the table.
    """

    __slots__ = ("_cache", "_decoder", "_like", "_traced")

    def __init__(self, max_list_bytes: int) -> None:
        self._decoder = Decoder(max_header_list_size=max_list_bytes)
        self._cache: dict[bytes, Block] = {}
        self._traced: dict[bytes, Block] = {}
        self._like: tuple[bytes, bytes, RequestHeaders] | None = None

    def request(self, block: bytes) -> Block:
        """The request that a block opens, or why it is malformed.

        Raises Http2ConnectionError: COMPRESSION_ERROR, or ENHANCE_YOUR_CALM for a list that is too long.
        """
        found = self._cache.get(block) or self._as_before(block)
        if found is not None:
            return found
        parts = split(block) if len(block) <= _LONGEST_CACHED_BYTES else None
        if parts is None:
            self._forget()
            return _checked(self._decode(block))
        key, trace = parts
        kept = self._cache if trace is None else self._traced
        found = kept.get(key) or _checked(self._decode(block))
        if len(kept) < _MOST_CACHED:
            kept[key] = found
        if trace is None or isinstance(found, MalformedError):
            return found
        if len(key) + trace.size == len(block):  # nothing else was left out
            begin = trace.begin
            self._like = block[:begin], block[begin + trace.size :], found
        return RequestHeaders(found.method, found.path, found.fields, trace)

    def _as_before(self, block: bytes) -> RequestHeaders | None:
        """A block that differs from the traced one before in the value of its traceparent alone."""
        if self._like is None:
            return None
        head, tail, found = self._like
        begin, end = len(head), len(block) - len(tail)
        if not (0 < end - begin <= LONGEST and block.startswith(head) and block.endswith(tail)):
            return None
        if block[begin] & 0x7F != end - begin - 1:
            return None
        return RequestHeaders(found.method, found.path, found.fields, Literal(block[begin:end], begin))

    def trailers(self, block: bytes) -> MalformedError | None:
        """Why a block is no trailer section; None when it is one. What it says is of no interest."""
        self._forget()
        try:
            for name, value in self._decode(block):
                _check_field(name, value)
        except MalformedError as exc:
            return exc
        return None

    def _forget(self) -> None:
        """The table may change, and with it what blocks mean."""
        self._cache.clear()
        self._traced.clear()
        self._like = None

    def _decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        try:
            return self._decoder.decode(block, raw=True)  # type: ignore[return-value]
        except OversizedHeaderListError as exc:
            raise Http2ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "header list too long") from exc
        except (HPACKError, IndexError, UnicodeDecodeError) as exc:
            raise Http2ConnectionError(ErrorCode.COMPRESSION_ERROR, f"header block: {exc}") from exc


def _checked(pairs: list[tuple[bytes, bytes]]) -> Block:
    try:
        return _request(pairs)
    except MalformedError as exc:
        return exc


def _request(pairs: list[tuple[bytes, bytes]]) -> RequestHeaders:
    pseudo: dict[bytes, bytes] = {}
    fields: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name.startswith(b":"):
            if fields or name in pseudo or name not in _PSEUDO:
                raise MalformedError(f"pseudo-header {name!r} late, twice or unknown")
            pseudo[name] = value
        else:
            _check_field(name, value)
            if name == b"content-length" and fields.get(name, value) != value:
                raise MalformedError("two content-lengths")
            fields[name] = value
    method, path, scheme = pseudo.get(b":method"), pseudo.get(b":path"), pseudo.get(b":scheme")
    if not method or not path or not scheme:
        raise MalformedError("a request needs :method, :scheme and :path")
    request = RequestHeaders(method, path, fields)
    _ = request.content_length
    return request


def _check_field(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name):
        raise MalformedError(f"field name {name[:40]!r}")
    if _BAD_VALUE.search(value) or value[:1] in {b" ", b"\t"} or value[-1:] in {b" ", b"\t"}:
        raise MalformedError(f"value of {name[:40]!r}")
    if name in _CONNECTION_SPECIFIC or (name == b"te" and value != b"trailers"):
        raise MalformedError(f"connection-specific field {name!r}")

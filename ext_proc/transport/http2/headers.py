"""Header blocks: HPACK (RFC 7541) by the library `hpack`, and the rules of RFC 9113, section 8, for requests."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from hpack import Decoder, HPACKError
from hpack.exceptions import OversizedHeaderListError

from ext_proc.transport.http2.frames import ErrorCode, Http2ConnectionError
from ext_proc.transport.http2.traceparent import (
    LONGEST,
    LONGEST_DECODED,
    TRACEPARENT,
    TRACESTATE,
    Literal,
    Parts,
    split,
)

_MOST_CACHED: Final = 256
_LONGEST_CACHED_BYTES: Final = 1024

_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]|\A[ \t]|[ \t]\Z")
_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_OF_A_URI: Final = re.compile(rb"[\x00-\x20\x7f]")
_LIST_ENTRY_BYTES: Final = 32
"""What a field counts beside its name and value (RFC 9113, section 6.5.2)."""
_TRACE: Final = frozenset({TRACEPARENT, TRACESTATE})
_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_CONNECTION_SPECIFIC: Final = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
)


class MalformedError(Exception):
    """A request that breaks section 8: a stream error of type PROTOCOL_ERROR."""


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The header section of a request. `fields` are the others by lower-case name; of a repeated one, the last.

    Those of W3C Trace Context are not among them: `trace` is the traceparent, decoded or not.
    """

    method: bytes
    path: bytes
    fields: dict[bytes, bytes]
    trace: Literal | bytes | None = None

    @property
    def traceparent(self) -> bytes | None:
        """The field of that name; None when there is none, and when it was not decoded as it is not sampled."""
        if isinstance(self.trace, Literal):
            return None if self.trace.unsampled else self.trace.decoded()
        return self.trace

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
    looked up, for as long as no other kind of block came, which might have changed the table. So is one without the
    values of its trace, among its like alone: it could be a block of another meaning.
    """

    __slots__ = ("_cache", "_decoder", "_like", "_max_list_bytes", "_traced")

    def __init__(self, max_list_bytes: int) -> None:
        self._decoder = Decoder(max_header_list_size=max_list_bytes)
        self._max_list_bytes = max_list_bytes
        self._cache: dict[bytes, Block] = {}
        self._traced: dict[bytes, RequestHeaders] = {}
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
        if parts.cuts:
            return self._of_parts(block, parts)
        found = _checked(self._decode(block))
        if len(self._cache) < _MOST_CACHED:
            self._cache[block] = found
        return found

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
        trace = Literal(block[begin:end], begin)
        return RequestHeaders(found.method, found.path, found.fields, trace) if trace.plain else None

    def _of_parts(self, block: bytes, parts: Parts) -> Block:
        """As a block of the same key was read, where nothing is wrong with the values that the key leaves out."""
        trace = parts.trace
        if not ((trace is None or trace.plain) and all(map(_is_fine, parts.others))):
            return _checked(self._decode(block))
        found = self._traced.get(parts.key)
        if found is None:
            pairs = self._decode(block)
            first = _checked(pairs)
            if isinstance(first, MalformedError) or not self._speaks_for_others(pairs, parts):
                return first
            found = replace(first, trace=None)
            if len(self._traced) < _MOST_CACHED:
                self._traced[parts.key] = found
        if trace is None:
            return found
        begin = trace.begin
        self._like = block[:begin], block[begin + trace.size :], found
        return RequestHeaders(found.method, found.path, found.fields, trace)

    def _speaks_for_others(self, pairs: list[tuple[bytes, bytes]], parts: Parts) -> bool:
        """Whether the fields of a trace are those that were cut, none by an index, and longer ones fit the limit."""
        size = sum(len(name) + len(value) + _LIST_ENTRY_BYTES for name, value in pairs)
        return (
            sum(name in _TRACE for name, _ in pairs) == parts.cuts
            and size + parts.cuts * LONGEST_DECODED <= self._max_list_bytes
        )

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


def _is_fine(value: Literal) -> bool:
    try:
        return not _BAD_VALUE.search(value.decoded())
    except HPACKError:
        return False


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
            _check_value(name, value)
            pseudo[name] = value
        else:
            _check_field(name, value)
            if name in fields and (name == b"host" or (name == b"content-length" and fields[name] != value)):
                raise MalformedError(f"two fields {name!r}")
            fields[name] = value
    _check_pseudo(pseudo)
    trace, _ = fields.pop(TRACEPARENT, None), fields.pop(TRACESTATE, None)
    request = RequestHeaders(pseudo[b":method"], pseudo[b":path"], fields, trace)
    _ = request.content_length
    return request


def _check_pseudo(pseudo: dict[bytes, bytes]) -> None:
    """Section 8.3.1. `*` is the path of OPTIONS for a whole server; methods are tokens of RFC 9110, section 9.1."""
    method, path, scheme = pseudo.get(b":method"), pseudo.get(b":path"), pseudo.get(b":scheme")
    if not method or not path or not scheme:
        raise MalformedError("a request needs :method, :scheme and :path")
    if not _METHOD.fullmatch(method):
        raise MalformedError(":method is no token")
    if _NOT_OF_A_URI.search(path) or _NOT_OF_A_URI.search(pseudo.get(b":authority", b"")):
        raise MalformedError("a blank or a control character in :path or :authority")
    of_web = scheme.lower() in {b"http", b"https"}
    if of_web and not path.startswith(b"/") and (method, path) != (b"OPTIONS", b"*"):
        raise MalformedError(":path does not begin with /")


def _check_field(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name):
        raise MalformedError(f"field name {name[:40]!r}")
    _check_value(name, value)
    if name in _CONNECTION_SPECIFIC or (name == b"te" and value != b"trailers"):
        raise MalformedError(f"connection-specific field {name!r}")


def _check_value(name: bytes, value: bytes) -> None:
    """Section 8.2.1, of pseudo-headers as well."""
    if _BAD_VALUE.search(value):
        raise MalformedError(f"value of {name[:40]!r}")

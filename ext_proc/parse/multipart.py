"""multipart/form-data (RFC 7578): the fields of a form, and which files it has. Files are stepped over, not copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from tidegate.domain.refusal import Reason, Refusal

MOST_PARTS: Final = 1000
LONGEST_HEADERS: Final = 8 << 10
"""Bytes of the headers of one part."""

_LONGEST_TYPE: Final = 4 << 10
_LONGEST_BOUNDARY: Final = 256  # RFC 2046 allows 70; some clients write more
_MOST_PARAMETERS: Final = 16
_MOST_LOOKALIKES: Final = 16  # lines of a file that begin as the delimiter does
_PARAMETER: Final = re.compile(r';\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*+)"?|([^\s;"]*+))', re.ASCII)
_DELIMITER_REST: Final = re.compile(rb"(--)?[ \t]*+(?:\r?\n|\Z)")
_BLANK_LINES: Final = (b"\r\n\r\n", b"\n\n")
_DISPOSITION: Final = re.compile(
    r"^content-disposition[ \t]*:[ \t]*form-data\b([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)


@dataclass(slots=True)
class Form:
    """`spans` are the fields' values as offsets in the body; of a name that stands twice, the last counts.

    `files` are the names of the fields that hold a file, in order, repeated as often as they stand.
    """

    body: bytes
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    def value(self, name: str) -> str | None:
        """A field's text. Raises Refusal (invalid-request) when it is not UTF-8."""
        if name not in self.spans:
            return None
        start, end = self.spans[name]
        try:
            return self.body[start:end].decode()
        except UnicodeDecodeError as exc:
            raise Refusal(Reason.INVALID_REQUEST, f"The field `{name}` must be UTF-8.", param=name) from exc


def read_form(body: bytes, content_type: str) -> Form:
    """The fields of `body`. Raises Refusal (invalid-request) for a form that is broken or names `model` twice."""
    form = Form(body)
    for start, end in _parts(body, _boundary(content_type)):
        _read_part(form, start, end)
    return form


def _parameters(text: str) -> dict[str, str]:
    """The parameters of a header's value by lower-case name, quotes and escapes removed; of two, the first counts."""
    found: dict[str, str] = {}
    for parameter in islice(_PARAMETER.finditer(text), _MOST_PARAMETERS):
        name, quoted, bare = parameter.groups("")
        found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted else bare)
    return found


def _boundary(content_type: str) -> bytes:
    boundary = _parameters(content_type).get("boundary", "") if len(content_type) <= _LONGEST_TYPE else ""
    if not boundary or len(boundary) > _LONGEST_BOUNDARY:
        raise Refusal(Reason.INVALID_REQUEST, "The content-type names no multipart boundary.")
    return boundary.encode("utf-8", "surrogateescape")


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each part, headers included and line breaks around it not."""
    start: int | None = None
    for _ in range(MOST_PARTS + 1):
        at, after, last = _delimiter(body, b"--" + boundary, 0 if start is None else start)
        if start is not None:
            yield start, max(start, at)
        if last:
            return
        start = after
    raise Refusal(Reason.INVALID_REQUEST, f"The form has more than {MOST_PARTS} parts.")


def _delimiter(body: bytes, line: bytes, start: int) -> tuple[int, int, bool]:
    """The next line that is a delimiter: where the text before it ends, where it ends, and whether it is the last."""
    at = body.find(line, start)
    for _ in range(_MOST_LOOKALIKES):
        if at < 0:
            break
        rest = _DELIMITER_REST.match(body, at + len(line))
        if rest and (at == 0 or body[at - 1] == ord("\n")):
            return _before_line_break(body, at), rest.end(), rest[1] is not None
        at = body.find(line, at + 1)
    raise Refusal(Reason.INVALID_REQUEST, "The multipart body does not hold its boundary, or not at its end.")


def _before_line_break(body: bytes, at: int) -> int:
    if body[at - 2 : at] == b"\r\n":
        return at - 2
    return at - 1 if at and body[at - 1] == ord("\n") else at


def _read_part(form: Form, start: int, end: int) -> None:
    headers_end, value = _headers_end(form.body, start, end)
    headers = form.body[start:headers_end].decode("utf-8", "replace")
    disposition = _DISPOSITION.search(headers)
    parameters = _parameters(disposition[1]) if disposition else {}
    name = parameters.get("name")
    if name is None:
        return
    if "filename" in parameters or "filename*" in parameters:
        form.files.append(name)
        return
    if name == "model" and name in form.spans:
        raise Refusal(Reason.INVALID_REQUEST, "The form names `model` twice.", param="model")
    form.spans[name] = (value, end)


def _headers_end(body: bytes, start: int, end: int) -> tuple[int, int]:
    """Where a part's headers end, and where its value begins."""
    for line_break in (b"\r\n", b"\n"):
        if body.startswith(line_break, start, end):  # no headers at all
            return start, start + len(line_break)
    until = min(end, start + LONGEST_HEADERS)
    found = [(at, at + len(blank)) for blank in _BLANK_LINES if (at := body.find(blank, start, until)) >= 0]
    if not found:
        raise Refusal(Reason.INVALID_REQUEST, "A part of the form has no headers, or too long ones.")
    return min(found)

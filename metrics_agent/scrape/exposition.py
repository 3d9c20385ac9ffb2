"""A scanner of the Prometheus text format that reads the lines it is asked for and skips the rest.

Pages run to hundreds of kilobytes ten times a second, most of it histograms nobody needs: a line whose name is
not wanted costs one partition and one set look-up. Format: Prometheus text 0.0.4; OpenMetrics exemplars,
timestamps, CRLF, blanks around braces and a trailing comma are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final, NamedTuple

_LABEL_SET: Final = re.compile(rb'\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}')
_LABEL: Final = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_LE: Final = re.compile(rb'(?:^|[,\s])le\s*=\s*"([^"]*)"')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class Series(NamedTuple):
    """One sample line: its label text without braces, and its value (NaN and infinities as they stand)."""

    labels: bytes
    value: float


def scan(page: bytes, wanted: Container[bytes]) -> dict[bytes, list[Series]]:
    """The series of each wanted family that the page has, in page order. A malformed line is no series."""
    found: dict[bytes, list[Series]] = {}
    for line in page.split(b"\n"):
        name = line.partition(b"{")[0]
        if name not in wanted:
            if b" " not in name or name.startswith(b"#"):
                continue
            name = name.split()[0] if name.strip() else b""
            if name not in wanted:
                continue
        series = _series(line, len(name))
        if series is not None:
            found.setdefault(name, []).append(series)
    return found


def _series(line: bytes, start: int) -> Series | None:
    opened = line.find(b"{", start)
    if opened < 0 or line[start:opened].strip():
        labels, rest = b"", line[start:]
    elif b"\\" in line or b"#" in line:  # escapes and exemplars need the careful way
        match = _LABEL_SET.match(line, opened)
        if match is None:
            return None
        labels, rest = match[1], line[match.end() :]
    else:
        closed = line.rfind(b"}")
        labels, rest = line[opened + 1 : closed], line[closed + 1 :]
        if closed < opened:
            return None
    try:
        return Series(labels, float(rest.split(None, 1)[0]))
    except (ValueError, IndexError):
        return None


def labels_of(series: Series) -> dict[str, str]:
    """Every label, with escapes resolved and bytes that are no UTF-8 replaced."""
    return {name.decode(): _unescape(value) for name, value in _LABEL.findall(series.labels)}


def bucket_of(series: Series) -> tuple[bytes, float] | None:
    """A histogram bucket's labels without `le`, and its upper bound; None when it has no readable `le`."""
    match = _LE.search(series.labels)
    if match is None:
        return None
    try:
        return series.labels[: match.start()] + series.labels[match.end() :], float(match[1])
    except ValueError:
        return None


def _unescape(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text) if "\\" in text else text

"""A scanner of the Prometheus text format that reads the lines it is asked for and skips the rest.

Pages run to hundreds of kilobytes ten times a second, most of it histograms nobody needs. One regular expression,
a prefix tree of the wanted names, walks the page in C and stops only at their lines; the labels of a series are the
same at every scrape, so they are taken apart once. A page's cost is bounded: a family with too many series, and
every family of a page with too many lines, is UNREAD. Format: Prometheus text 0.0.4; OpenMetrics exemplars, timestamps,
CRLF, blanks around braces and a trailing comma are accepted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

LONGEST_LABELS: Final = 1 << 14
"""Bytes. A series with more is none, so that the work and the memory for one page stay bounded."""
LABEL_SETS_REMEMBERED: Final = 1 << 12
MOST_SERIES: Final = 1 << 11
"""Lines of one family, malformed ones among them: 32 engines with histograms of 60 buckets."""
MOST_LINES: Final = 1 << 13
"""Lines of all wanted families on one page."""
SEGMENT_BYTES: Final = 1 << 16
LARGEST_VALUE: Final = 1e15
"""No count, size or time of an engine is larger: what is, is unknown."""

# Labels, value; ends early where a label's value holds a brace, and looks for it once, in its line alone.
_USUAL: Final = rb"\{([^}\n]*+)\} ([^\n]*)"
_ANY: Final = rb"([{ \t][^\n]*)"

_LABEL_SET: Final = re.compile(rb'\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}')
_LABEL: Final = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)

Series = tuple[bytes, float]
"""One sample line: its label text without braces, and its value (NaN and infinities as they stand)."""
UNREAD: Final[list[Series]] = [(b"", math.nan)]
"""Stands for the series of a family that has too many: one of no known value."""


class Scanner:
    """Finds the series of the families named at its making. Holds no state of a page."""

    def __init__(self, names: Iterable[bytes]) -> None:
        self._lines = re.compile(rb"\n(" + _prefix_tree(sorted(set(names))) + rb")(?:" + _USUAL + rb"|" + _ANY + rb")")

    def scan(self, page: bytes) -> dict[bytes, list[Series]]:
        """The series of each wanted family that the page has, in page order. A malformed line is no series.

        A family of more than MOST_SERIES lines is UNREAD; so is every one that a page of more than MOST_LINES shows.
        """
        found: dict[bytes, list[Series]] = {}
        lines: Counter[bytes] = Counter()
        for segment in _segments(page):
            matches = self._lines.findall(segment)
            lines.update(match[0] for match in matches)
            crowded = {name for name, count in lines.items() if count > MOST_SERIES}
            if lines.total() > MOST_LINES:
                return dict.fromkeys(lines, UNREAD)
            for name, *line in matches:
                if name not in crowded and (series := _series(*line)) is not None:
                    found.setdefault(name, []).append(series)
            found |= dict.fromkeys(crowded, UNREAD)
        return found


def _segments(page: bytes) -> Iterator[bytes]:
    """The page in pieces of whole lines, each with a line feed before its first: work can end between two."""
    start = 0
    while start < len(page):
        end = page.find(b"\n", start + SEGMENT_BYTES)
        end = len(page) if end < 0 else end
        yield b"\n" + page[start:end]
        start = end + 1


def _series(labels: bytes, value: bytes, rest: bytes) -> Series | None:
    try:
        series: Series | None = (labels, number_of(value))
    except ValueError:
        series = _careful(rest or b"{" + labels + b"} " + value)
    return series if series is not None and len(series[0]) <= LONGEST_LABELS else None


def number_of(text: bytes) -> float:
    """A number of the format, NaN and infinities among them. Raises ValueError; Python alone reads 1_0 as ten."""
    if b"_" in text:
        raise ValueError(text)
    return float(text)


def _prefix_tree(names: list[bytes]) -> bytes:
    """An expression for sorted names that shares their beginnings, so that each byte of a line is looked at once."""
    root: dict[int, Any] = {}
    for name in names:
        node = root
        for byte in name:
            node = node.setdefault(byte, {})
        node[-1] = {}
    return _branches(root)


def _branches(node: dict[int, Any]) -> bytes:
    ways = [re.escape(bytes([byte])) + _branches(below) for byte, below in node.items() if byte >= 0]
    ways += [b""] if -1 in node else []  # the longer name first
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")" if ways else b""


def _careful(rest: bytes) -> Series | None:
    """What follows a name, with braces, escapes, blanks, a timestamp or an exemplar in it."""
    if len(rest) > 2 * LONGEST_LABELS:
        return None
    match = _LABEL_SET.match(rest)
    labels, after = (match[1], rest[match.end() :]) if match else (b"", rest)
    try:
        return labels, number_of(after.split(None, 1)[0])
    except (ValueError, IndexError):
        return None


@lru_cache(LABEL_SETS_REMEMBERED)
def labels_of(text: bytes) -> Mapping[str, str]:
    """The labels in a series' text, with escapes resolved and bytes that are no UTF-8 replaced."""
    return {name.decode(): _unescape(value) for name, value in _LABEL.findall(text)}


def histograms_of(lines: Iterable[Series]) -> dict[bytes, dict[float, float]]:
    """Cumulative counts by upper bound, by the series' labels without `le`. What is no count is left out."""
    by_series: dict[bytes, dict[float, float]] = {}
    for labels, count in lines:
        bucket = _bucket(labels)
        if bucket is not None and count <= LARGEST_VALUE:  # nor NaN
            by_series.setdefault(bucket[0], {})[bucket[1]] = count
    return by_series


@lru_cache(LABEL_SETS_REMEMBERED)
def _bucket(text: bytes) -> tuple[bytes, float] | None:
    """A bucket's labels without `le`, and its upper bound; None when it has no readable `le`."""
    bound = next((label for label in _LABEL.finditer(text) if label[1] == b"le"), None)
    if bound is None:
        return None
    try:
        upper = number_of(bound[2])
    except ValueError:
        return None
    known = upper <= LARGEST_VALUE or upper == math.inf  # not NaN
    return (text[: bound.start()] + text[bound.end() :], upper) if known else None


def _unescape(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text) if "\\" in text else text

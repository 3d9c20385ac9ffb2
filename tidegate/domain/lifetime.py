"""How long an operator's order holds: `300 for 10m`, `300 until 2026-11-29T22:41:03Z`, or `300` until it is deleted.

    text     = rest [lifetime] | lifetime
    lifetime = "for" duration | "until" time
    duration = one or more of: whole number, then s, m, h or d     (1h30m; from a second to a year)
    time     = YYYY-MM-DDTHH:MM:SSZ

A person types `for`; the controller replaces it by `until` as it first sees it, so that the end is known to whoever
starts later, and the same words typed once more begin anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

LONGEST_MS: Final = 366 * 86_400_000

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}[dhms])+")
_PART: Final = re.compile(r"([0-9]+)([dhms])")
_LIFETIME: Final = re.compile(r"(?P<rest>.*?)(?:^|\s+)(?P<word>for|until)\s+(?P<end>\S+)", re.DOTALL)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Timed:
    """An order's text without its lifetime, and its end in Unix milliseconds (None: it has none).

    `spoken` is True where the end was typed as a duration, which counts from the moment of reading.
    """

    rest: str
    until_ms: int | None = None
    spoken: bool = False

    def is_over(self, now_ms: int) -> bool:
        """Whether it holds no more."""
        return self.until_ms is not None and now_ms >= self.until_ms

    @property
    def text(self) -> str:
        """The order with its end as a time: what stays right whenever it is read."""
        return timed_text(self.rest, self.until_ms)


def timed_text(rest: str, until_ms: int | None) -> str:
    """`rest`, with ` until …` where there is an end."""
    if until_ms is None:
        return rest
    return f"{rest} until {time_text(until_ms)}".strip()


def read_timed(text: str, now_ms: int) -> Timed:
    """What `text` says at `now_ms`. What does not end in a lifetime is all rest: a reason may have any words."""
    found = _LIFETIME.fullmatch(text)
    if found is None:
        return Timed(text)
    try:
        if found["word"] == "for":
            return Timed(found["rest"], _whole_second(now_ms + duration_ms(found["end"])), spoken=True)
        return Timed(found["rest"], _time_ms(found["end"]))
    except ValueError:
        return Timed(text)


def duration_ms(text: str) -> int:
    """`90s`, `10m`, `1h30m`, `2d` in milliseconds. Raises ValueError with half a sentence."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no duration such as 90s, 10m, 1h30m or 2d")
    total = sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))
    if not 1_000 <= total <= LONGEST_MS:
        raise ValueError(f"{text[:40]!r} is not between 1s and 366d")
    return total


def duration_text(ms: int) -> str:
    """The two largest units of a duration: 1h30m, 9m58s, 2s; less than a second is 0s."""
    parts = []
    for unit, size in _UNITS_MS.items():
        count, ms = divmod(max(0, ms), size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def time_text(at_ms: int) -> str:
    """Unix milliseconds as `2026-11-29T22:41:03Z`; parts of a second are cut off."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime(_TIME)


def _time_ms(text: str) -> int:
    return int(datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()) * 1000


def _whole_second(at_ms: int) -> int:
    """The next whole second, since a time is written in those: an order ends no earlier than promised."""
    return -(-at_ms // 1000) * 1000

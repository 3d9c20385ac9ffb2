"""What an operator asks for: the fields of `rollout:{model}`, as typed, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidegate.domain.lifetime import duration_ms
from tidegate.domain.routing import PERMILLE
from tidegate.domain.split import Parts

STEPS: Final = "1,5,25,50,100"
HOLD: Final = "10m"
MAX_ERROR_RATE: Final = "0.01"
MAX_P95_RATIO: Final = "1.5"
MIN_REQUESTS: Final = "50"
MAX_SILENCE: Final = "2m"
MOST_STEPS: Final = 100
LEAST_RATIO: Final = 1.0
MOST_RATIO: Final = 100.0
MOST_REQUESTS: Final = 1_000_000

_STEP: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]))?%?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a canary may do. `max_error_ratio` 0…1; `max_p95_ratio` (>= 1) of stable's p95; `min_requests` >= 1;
    `max_silence_ms` (>= 1,000) without a replica that serves.
    """

    max_error_ratio: float
    max_p95_ratio: float
    min_requests: int
    max_silence_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """From `stable` to `canary` in `steps` (parts per thousand, rising), each held for `hold_ms` at least.

    `before` is the split as it was, in which other versions keep their shares throughout.
    """

    canary: str
    stable: str
    steps: tuple[int, ...]
    hold_ms: int
    limits: Limits
    before: Parts

    def parts(self, permille: int, order: Sequence[str]) -> Parts:
        """The split in which the canary has `permille`, and stable the rest of what both have."""
        shares = dict(self.before)
        pool = shares.get(self.stable, 0) + shares.get(self.canary, 0)
        shares |= {self.canary: permille, self.stable: pool - permille}
        return tuple((name, shares[name]) for name in order if name in shares)


def read_plan(fields: Mapping[str, str], before: Parts, order: Sequence[str]) -> Plan:
    """The plan of these fields. Raises ValueError with a sentence.

    `before` is the split in force, or all for one version; `order` are the clusters that there may be.
    """
    canary = fields.get("to", "").strip()
    if not canary:
        raise ValueError("nothing says which version it goes to; give `to` a cluster")
    stable = fields.get("from", "").strip() or _stable(before, canary)
    for name in (canary, stable):
        if name not in order:
            raise ValueError(f"there is no cluster {name!r} (there are: {', '.join(order)})")
    if canary == stable:
        raise ValueError(f"it goes from {stable} to {canary}, which is the same cluster")
    shares = dict(before)
    steps = read_steps(fields.get("steps", STEPS))
    pool = shares.get(stable, 0) + shares.get(canary, 0)
    if steps[0] < shares.get(canary, 0) > shares.get(stable, 0):
        raise ValueError(
            f"{canary} has {percent(shares[canary])}, more than {stable}, and the first step would give it less:"
            f" begin the steps there, or go to {stable}"
        )
    if steps[-1] > pool:
        raise ValueError(
            f"its last step is {percent(steps[-1])}, but {stable} and {canary} have {percent(pool)} together:"
            f" end the steps there, or give the others' shares to {stable} first"
        )
    return Plan(
        canary=canary,
        stable=stable,
        steps=steps,
        hold_ms=_duration("hold", fields.get("hold", HOLD)),
        limits=Limits(
            max_error_ratio=_error_rate(fields.get("max_error_rate", MAX_ERROR_RATE)),
            max_p95_ratio=_ratio(fields.get("max_p95_ratio", MAX_P95_RATIO)),
            min_requests=_requests(fields.get("min_requests", MIN_REQUESTS)),
            max_silence_ms=_duration("silence", fields.get("max_silence", MAX_SILENCE)),
        ),
        before=before,
    )


def read_steps(text: str) -> tuple[int, ...]:
    """`0.1,1,5%` as (1, 10, 50) parts per thousand. Raises ValueError with a sentence."""
    steps = tuple(_step(word.strip()) for word in text.split(","))
    if any(before >= after for before, after in pairwise(steps)):
        raise ValueError(f"the steps {text} do not rise; each has to be more than the one before")
    if len(steps) > MOST_STEPS:
        raise ValueError(f"{len(steps)} steps are too many; {MOST_STEPS} are the most")
    return steps


def percent(permille: int) -> str:
    """`5 %`, `0.1 %`."""
    return f"{permille / 10:g} %"


def _step(word: str) -> int:
    found = _STEP.fullmatch(word)
    permille = int(found[1]) * 10 + int(found[2] or 0) if found else 0
    if not 0 < permille <= PERMILLE:
        raise ValueError(f"the step {word!r} is not a percentage from 0.1 to 100, with one decimal at most")
    return permille


def _stable(before: Parts, canary: str) -> str:
    """The version that has the most, beside the canary; the first of several."""
    others = [(name, share) for name, share in before if name != canary]
    if not others:
        raise ValueError(f"{canary} serves the model alone; name another cluster to go to, or `from`")
    return max(others, key=lambda one: one[1])[0]


def _duration(what: str, text: str) -> int:
    try:
        return duration_ms(text.strip())
    except ValueError as exc:
        raise ValueError(f"the {what} {text!r} is no duration such as 90s, 10m or 1h30m") from exc


def _error_rate(text: str) -> float:
    """`0.05` or `5%`."""
    word = text.strip()
    value = _number(word.removesuffix("%")) if _NUMBER.fullmatch(word.removesuffix("%")) else -1.0
    value = value / 100 if word.endswith("%") else value
    if not 0 <= value < 1:
        raise ValueError(f"the error rate {text!r} is not a part such as 0.05 or 5%, below 1")
    return value


def _ratio(text: str) -> float:
    value = _number(text.strip())
    if not LEAST_RATIO <= value <= MOST_RATIO:
        raise ValueError(f"the p95 ratio {text!r} is not a number from {LEAST_RATIO:g} to {MOST_RATIO:g}")
    return value


def _requests(text: str) -> int:
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= 7 and 1 <= int(word) <= MOST_REQUESTS):
        raise ValueError(f"{text!r} requests are not a whole number from 1 to {MOST_REQUESTS}")
    return int(word)


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else -1.0

"""Whether a canary is worse than stable, by what both did in the same time.

    judged requests n    served + fault          what a client got wrong (4xx), back-pressure (429, 503) and clients
                                                 that left are nobody's fault, and dilute nothing
    too many faults      binomial_tail(faults of the canary, n, max_error_ratio) <= level
                     and fisher_tail(canary's faults, against stable's)          <= level
    too slow             exceedance_tail(canary's served requests that took longer than max_p95_ratio times stable's
                         p95, rank of that p95)                                  <= level

Both tests of faults have to agree: a canary above the limit that is no worse than a stable which is bad as well stays
where it is, and so does one that is worse than stable within the limit. Nothing is decided below `min_requests` of
either. Where there is no stable to compare with, the limit of faults alone counts.

Looking often finds something by chance sooner or later, so that every look has a level of its own, and all of them
sum to ALARMS at most (union bound): a rollout of n = m, m + 1, … judged requests, m = min_requests, looks at most once
for each n, at

    level(n) = share · m / (n · (n + 1))          their sum over n >= m is `share`

and `share` is ALARMS over the steps of the plan, half for faults and half for slowness, half for the whole step and
half for its last minute. Of the last minutes, which begin anew, the j-th has 1 / (j · (j + 1)) of that half. Of a
hundred rollouts whose canary is as good as stable, one at most goes back by chance.

A canary is not promoted while it looks worse: while a limit is exceeded at DOUBT, without any correction for looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Final

from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.sketch import key_of, most_ms
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.rollout.chance import binomial_tail, exceedance_tail, fisher_tail
from tidegate.domain.rollout.plan import Limits

ALARMS: Final = 0.01
"""How likely a rollout of a canary that is as good as stable goes back by chance, at most."""
DOUBT: Final = 0.05
_P95: Final = 0.95


class Verdict(StrEnum):
    """TOO_FEW decides nothing, WORSE goes back, DOUBTFUL stays where it is, GOOD may go on."""

    TOO_FEW = "too_few"
    GOOD = "good"
    DOUBTFUL = "doubtful"
    WORSE = "worse"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and the sentence with its figures."""

    verdict: Verdict
    why: str


def judged(figures: Figures) -> int:
    """The requests that say something about a version."""
    return figures.count(Ending.SERVED) + figures.count(Ending.FAULT)


def level(share: float, requests: int, least: int) -> float:
    """The level of the look at so many requests; `share` is what all looks from `least` requests on sum to."""
    return share * least / (requests * (requests + 1))


def judge(canary: Figures, stable: Figures | None, limits: Limits, share: float) -> Finding:
    """The canary against stable over one window. `share` is the chance of a false alarm that this window may take."""
    requests, least = judged(canary), limits.min_requests
    few = [("the canary", requests), *([("stable", judged(stable))] if stable is not None else [])]
    for who, count in few:
        if count < least:
            return Finding(Verdict.TOO_FEW, f"{who} had {count} of the {least} requests that it takes")
    tests = [_faultiness(canary, stable, limits)]
    if stable is not None:
        tests.append(_slowness(canary, stable, limits))
    for verdict, most in ((Verdict.WORSE, level(share / 2, requests, least)), (Verdict.DOUBTFUL, DOUBT)):
        for chance, why in tests:
            if chance <= most:
                return Finding(verdict, why)
    return Finding(Verdict.GOOD, "; ".join(why for _, why in tests))


def _faultiness(canary: Figures, stable: Figures | None, limits: Limits) -> tuple[float, str]:
    """The greater of both chances, so that both tests have to agree (Berger's intersection-union test, 1982)."""
    bad, requests = canary.count(Ending.FAULT), judged(canary)
    said = _faults(canary, stable)
    if bad <= limits.max_error_ratio * requests:
        return 1.0, said
    chance = binomial_tail(bad, requests, limits.max_error_ratio)
    if stable is not None:
        chance = max(chance, fisher_tail(bad, requests, stable.count(Ending.FAULT), judged(stable)))
    return chance, said


def _faults(canary: Figures, stable: Figures | None) -> str:
    said = f"{_share(canary)} of the canary's requests were faults"
    return said if stable is None else f"{said}, {_share(stable)} of stable's"


def _share(figures: Figures) -> str:
    bad, requests = figures.count(Ending.FAULT), judged(figures)
    return f"{bad / requests:.2%} ({bad} of {requests})"


def _slowness(canary: Figures, stable: Figures, limits: Limits) -> tuple[float, str]:
    """The chance, and the sentence. Bins are taken so that their width never speaks against the canary."""
    mine, theirs = canary.quantile_ms(_P95), stable.quantile_ms(_P95)
    if mine is None or theirs is None:
        return 1.0, "nothing was served that could be timed"
    said = f"its p95 was {mine:,.0f} ms, stable's {theirs:,.0f} ms"
    rank, limit_ms = _rank(stable)
    key = key_of(limits.max_p95_ratio * limit_ms)
    above = sum(count for one, count in canary.times.items() if one > key)
    requests, others = sum(canary.times.values()), sum(stable.times.values())
    return exceedance_tail(above, requests, rank, others), said


def _rank(figures: Figures) -> tuple[int, float]:
    """How many requests took no longer than the upper end of the bin that holds the p95, and that end."""
    wanted, seen = ceil(_P95 * sum(figures.times.values())), 0
    for key in sorted(figures.times):
        seen += figures.times[key]
        if seen >= wanted:
            return seen, most_ms(key)
    raise AssertionError("unreachable: the counts sum to what was wanted")

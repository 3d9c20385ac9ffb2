"""Tail probabilities of exact tests: how likely is it that chance alone gives what was seen, or worse.

All are 0…1. Sums run until a term no longer matters, so that thousands of requests cost microseconds to milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, log1p
from typing import Final

_NEGLIGIBLE: Final = 1e-17


def binomial_tail(bad: int, requests: int, allowed: float) -> float:
    """P(X ≥ bad), X ~ Binomial(requests, allowed): the exact one-sided test of a share (Clopper and Pearson, 1934)."""
    if bad <= 0 or allowed >= 1:
        return 1.0
    if allowed <= 0:
        return 0.0
    first = _choose(requests, bad) + bad * log(allowed) + (requests - bad) * log1p(-allowed)
    odds = allowed / (1 - allowed)
    return _tail(first, bad, requests, lambda k: (requests - k) / (k + 1) * odds)


def fisher_tail(bad: int, requests: int, other_bad: int, other_requests: int) -> float:
    """P(at least `bad` of all bad ones fall on this side), were both equally bad (Fisher's exact test, one-sided)."""
    all_bad, everything = bad + other_bad, requests + other_requests
    if bad <= max(0, all_bad - other_requests):
        return 1.0
    first = _choose(all_bad, bad) + _choose(everything - all_bad, requests - bad) - _choose(everything, requests)

    def ratio(k: int) -> float:
        return (all_bad - k) * (requests - k) / ((k + 1) * (other_requests - all_bad + k + 1))

    return _tail(first, bad, min(requests, all_bad), ratio)


def exceedance_tail(above: int, requests: int, rank: int, other_requests: int) -> float:
    """P(at least `above` of `requests` exceed the rank-th smallest of `other_requests`), were all drawn alike.

    Distribution-free: exceedances of an order statistic are beta-binomial with a = other_requests - rank + 1 and
    b = rank (Mathisen, Annals of Mathematical Statistics 14, 1943, here for any quantile). 1 <= rank <= other_requests.
    """
    if above <= 0:
        return 1.0
    a, b = other_requests - rank + 1, rank
    first = _choose(requests, above) + _beta(above + a, requests - above + b) - _beta(a, b)

    def ratio(k: int) -> float:
        return (requests - k) / (k + 1) * (k + a) / (requests - k - 1 + b)

    return _tail(first, above, requests, ratio)


def _tail(first_log: float, begin: int, end: int, ratio: Callable[[int], float]) -> float:
    """Sum of terms from `begin` to `end`; `ratio(k)` is the term of k + 1 over that of k, and falls with k."""
    total = term = 1.0
    for k in range(begin, end):
        step = ratio(k)
        term *= step
        total += term
        if step < 1 and term < total * _NEGLIGIBLE:
            break
        if total > 1e250:
            return 1.0
    return min(1.0, exp(min(0.0, first_log + log(total))))


def _choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)

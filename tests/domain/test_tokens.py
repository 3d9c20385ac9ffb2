"""The ratio of characters to tokens follows the engines' counters, and nothing else moves it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api
from tidegate.domain.tokens import (
    FIRST_RATIO,
    LEAST_RATIO,
    MOST_RATIO,
    Counted,
    EngineCounters,
    Sent,
    TokenRatio,
    estimate_tokens,
)


class Traffic:
    """A cluster's traffic in looks of one second: what the gateway sends, and engines that count it `lag` later."""

    def __init__(self, true_ratio: float, lag: int = 0, seed: int = 7) -> None:
        self.learned, self.true_ratio, self.random = TokenRatio(), true_ratio, random.Random(seed)
        self.sent, self.counted = Sent(), Counted()
        self.pending: list[Counted] = [Counted()] * lag

    def second(self, requests: int = 8, *, lost: int = 0, others: int = 0, others_tokens: int = 0, **more: int) -> None:
        chars = [self.random.randint(40, 4000) for _ in range(requests)]
        self.sent += Sent(requests, sum(chars), **more)
        tokens = sum(round(one / self.true_ratio) for one in chars[lost:])
        self.pending.append(Counted(requests - lost + others, tokens + others_tokens + more.get("exact_tokens", 0)))
        now = self.pending.pop(0)
        self.counted = Counted(self.counted.prompts + now.prompts, self.counted.tokens + now.tokens)
        self.learned.look(self.sent, self.counted)


@pytest.mark.parametrize("true_ratio", [1.3, 2.5, 4.0, 5.5, 7.5])
@pytest.mark.parametrize("lag", [0, 3])
def test_the_ratio_of_the_engines_is_learned(true_ratio: float, lag: int) -> None:
    traffic = Traffic(true_ratio, lag)
    for _ in range(400):
        traffic.second()
    assert traffic.learned.ratio == pytest.approx(true_ratio, rel=0.1)


def test_before_anything_is_counted_it_is_four() -> None:
    assert TokenRatio().ratio == FIRST_RATIO == 4.0


@pytest.mark.parametrize(("true_ratio", "bound"), [(0.6, LEAST_RATIO), (14.0, MOST_RATIO)])
def test_it_never_leaves_its_bounds(true_ratio: float, bound: float) -> None:
    traffic = Traffic(true_ratio)
    for _ in range(300):
        traffic.second()
    assert traffic.learned.ratio == bound


def test_one_odd_window_moves_it_little() -> None:
    traffic = Traffic(4.0)
    for _ in range(100):
        traffic.second()
    before = traffic.learned.ratio
    traffic.true_ratio, windows = 1.0, traffic.learned.windows
    while traffic.learned.windows == windows:
        traffic.second()
    assert before * 0.85 < traffic.learned.ratio < before


def test_prompts_given_as_ids_count_as_what_they_are() -> None:
    traffic = Traffic(3.0)
    for _ in range(300):
        traffic.second(exact_tokens=5000)
    assert traffic.learned.ratio == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("others_tokens", [10, 100_000], ids=["small", "large"])
def test_traffic_that_came_past_the_gateway_teaches_nothing(others_tokens: int) -> None:
    traffic = Traffic(3.0)
    for _ in range(200):
        traffic.second()
    before = traffic.learned.ratio
    for _ in range(200):
        traffic.second(others=8, others_tokens=8 * others_tokens)
    assert traffic.learned.ratio == pytest.approx(before, rel=0.05)


def test_media_and_several_sequences_teach_nothing() -> None:
    traffic = Traffic(2.0)
    for _ in range(200):
        traffic.second(unclear=2)
    assert (traffic.learned.ratio, traffic.learned.windows) == (FIRST_RATIO, 0)


def test_requests_that_engines_refuse_now_and_then_do_no_harm() -> None:
    traffic = Traffic(3.0)
    for number in range(400):
        traffic.second(lost=int(number % 4 == 0))
    assert traffic.learned.ratio == pytest.approx(3.0, rel=0.15)


def test_what_goes_backwards_is_dropped() -> None:
    learned = TokenRatio()
    learned.look(Sent(100, 1000), Counted(100, 1000))
    learned.look(Sent(200, 2000), Counted(10, 10))
    learned.look(Sent(300, 3000), Counted(5, 5))
    assert (learned.ratio, learned.windows) == (FIRST_RATIO, 0)


@given(st.lists(st.tuples(*[st.integers(0, 10**7)] * 5), max_size=60))
def test_whatever_is_counted_it_stays_a_ratio(steps: list[tuple[int, ...]]) -> None:
    learned = TokenRatio()
    for prompts, chars, exact, counted, tokens in steps:
        learned.look(Sent(prompts, chars, exact), Counted(counted, tokens))
        assert LEAST_RATIO <= learned.ratio <= MOST_RATIO


def test_counters_of_engines_add_up_over_restarts() -> None:
    engines = EngineCounters()
    assert not engines.look([("a", Counted(10, 1000)), ("b", Counted(0, 0))]), "what a counted before is not ours"
    assert engines.look([("a", Counted(12, 1100)), ("b", Counted(1, 50))])
    assert engines.total == Counted(3, 150)
    assert not engines.look([("a", Counted(1, 20)), ("b", Counted(1, 50))]), "a began anew"
    assert engines.look([("a", Counted(2, 50))])
    assert engines.look([("a", Counted(2, 50)), ("b", Counted(4, 90))]), "b was away"
    assert engines.total == Counted(7, 220)


@pytest.mark.parametrize(
    ("expected", "info"),
    [
        (0, RequestInfo(api=Api.CHAT)),
        (1, RequestInfo(api=Api.CHAT, prompt_chars=1)),
        (25, RequestInfo(api=Api.CHAT, prompt_chars=100)),
        (26, RequestInfo(api=Api.CHAT, prompt_chars=101)),
        (50, RequestInfo(api=Api.CHAT, prompt_chars=100, tool_bytes=100)),
        (32, RequestInfo(api=Api.COMPLETIONS, prompt_chars=100, prompt_tokens=7)),
    ],
)
def test_tokens_are_ids_and_characters(expected: int, info: RequestInfo) -> None:
    assert estimate_tokens(info, 4.0) == expected

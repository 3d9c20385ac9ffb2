"""Expected output lengths follow what the engines generated, class by class, and nothing else moves them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.outputs import (
    ENOUGH_REQUESTS,
    UNCLEAR,
    WIDEST,
    OutputLengths,
    class_of,
    decodes,
    is_class,
    most_of,
    prior_of,
)
from tidegate.domain.request import Kind, RequestInfo
from tidegate.domain.routing import Api
from tidegate.domain.tokens import Counted

NOTHING = Counted()
CHAT, TOOLS, SHORT = "chat,stream,-,2000", "chat,stream,tools,-,16000", "chat,32,2000"


class Traffic:
    """A cluster's traffic in looks of one second; engines end a request `lag` looks after it was sent."""

    def __init__(self, means: dict[str, float], lag: int = 2, seed: int = 3) -> None:
        self.learned, self.means, self.random = OutputLengths(), means, random.Random(seed)
        self.sent: Counter[str] = Counter()
        self.counted = Counted()
        self.pending = [Counted()] * lag

    def second(self, mix: dict[str, int], others: Counted = NOTHING) -> None:
        ended, tokens = 0, 0
        for name, number in mix.items():
            self.sent[name] += number
            ended += number
            tokens += sum(round(self.random.expovariate(1 / self.means[name])) for _ in range(number))
        self.pending.append(Counted(ended + others.prompts, tokens + others.tokens))
        now = self.pending.pop(0)
        self.counted = Counted(self.counted.prompts + now.prompts, self.counted.tokens + now.tokens)
        self.learned.look(self.sent, self.counted)

    def mixed(self, seconds: int) -> None:
        """The mix of the classes drifts, as it does over a day."""
        for second in range(seconds):
            if second % 30 == 0:
                weights = [self.random.random() for _ in self.means]
            chosen = self.random.choices(list(self.means), weights, k=16)
            self.second(Counter(chosen))


@pytest.mark.parametrize("mean", [20, 256, 3000])
def test_the_length_of_one_class_is_learned(mean: float) -> None:
    traffic = Traffic({CHAT: mean})
    for _ in range(400):
        traffic.second({CHAT: 16})
    assert traffic.learned.of(CHAT) == pytest.approx(mean, rel=0.2)


def test_classes_part_when_their_mix_changes() -> None:
    traffic = Traffic({CHAT: 900, TOOLS: 60})
    traffic.mixed(3000)
    assert traffic.learned.of(CHAT) == pytest.approx(900, rel=0.25)
    assert traffic.learned.of(TOOLS) == pytest.approx(60, rel=0.35)


def test_the_sum_is_right_whatever_the_mix() -> None:
    traffic = Traffic({CHAT: 900, TOOLS: 60, SHORT: 20})
    traffic.mixed(1500)
    expected = sum(number * traffic.learned.of(name) for name, number in traffic.sent.items())
    assert expected == pytest.approx(traffic.counted.tokens, rel=0.2)


def test_a_class_that_was_not_seen_moves_with_the_others() -> None:
    traffic = Traffic({CHAT: 4 * prior_of(CHAT)})
    for _ in range(300):
        traffic.second({CHAT: 16})
    assert 1.5 * prior_of(TOOLS) < traffic.learned.of(TOOLS) < 4 * prior_of(TOOLS)


def test_traffic_of_others_teaches_nothing() -> None:
    traffic = Traffic({CHAT: prior_of(CHAT)})
    for _ in range(200):
        traffic.second({CHAT: 16}, others=Counted(8, 80_000))
    assert traffic.learned.windows == 0
    assert traffic.learned.of(CHAT) == prior_of(CHAT)


def test_a_counter_that_went_back_teaches_nothing() -> None:
    learned = OutputLengths()
    learned.look({CHAT: 0}, Counted(1000, 1000_000))
    learned.look({CHAT: 100}, Counted(100, 500))
    assert learned.windows == 0
    learned.look({CHAT: 200}, Counted(200, 500 + 100 * 512))
    assert learned.windows == 1
    assert learned.of(CHAT) == pytest.approx(512, rel=0.01)


def test_an_instance_that_left_spoils_the_window() -> None:
    learned = OutputLengths()
    learned.look({CHAT: 0, TOOLS: 500}, Counted())
    learned.look({CHAT: 500}, Counted(500, 5))
    assert learned.windows == 0


@pytest.mark.parametrize("unclear", [4, 3], ids=["too many", "few"])
def test_sequences_that_may_be_several_teach_nothing(unclear: int) -> None:
    learned = OutputLengths()
    learned.look({}, Counted())
    learned.look({CHAT: ENOUGH_REQUESTS - unclear, UNCLEAR: unclear}, Counted(ENOUGH_REQUESTS, 9))
    assert learned.windows == (unclear == 3)


def test_an_odd_window_at_most_doubles() -> None:
    learned = OutputLengths()
    learned.look({CHAT: 0}, Counted())
    learned.look({CHAT: 64}, Counted(64, 10**9))
    assert learned.of(CHAT) == pytest.approx(2 * prior_of(CHAT))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 10**7)), max_size=60))
def test_expectations_stay_within_bounds(windows: list[tuple[int, int, int]]) -> None:
    learned, sent, counted = OutputLengths(), Counter[str](), Counted()
    learned.look({}, counted)
    for one, other, tokens in windows:
        sent.update({CHAT: one, SHORT: other})
        counted = Counted(counted.prompts + one + other, counted.tokens + tokens)
        learned.look(sent, counted)
    assert 0 < learned.of(SHORT) <= 32
    assert all(0 < learned.of(name) < prior_of(name) * 64**2 * 1.01 for name in (CHAT, TOOLS))
    assert WIDEST > 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "chat,-,2000"),
        ({"stream": True, "tools": 3, "max_output_tokens": 32}, "chat,stream,tools,32,2000"),
        ({"max_output_tokens": 33, "prompt_chars": 1999, "tool_bytes": 2}, "chat,256,16000"),
        ({"max_output_tokens": 5000, "prompt_tokens": 4001}, "chat,+,+"),
        ({"api": Api.COMPLETIONS, "max_output_tokens": 16}, "completions,32,2000"),
    ],
)
def test_class_is_named_by_what_decides_it(fields: dict[str, Any], name: str) -> None:
    assert class_of(RequestInfo(**{"api": Api.CHAT, **fields})) == name
    assert is_class(name)


@pytest.mark.parametrize("name", ["", "chat", "chat,-,3", "cat,-,2000", "chat,tools,stream,-,2000", "chat,-,2000,+"])
def test_other_names_are_no_class(name: str) -> None:
    assert not is_class(name)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [(CHAT, 256), (TOOLS, 182), (SHORT, 32), ("completions,-,2000", 64), ("chat,+,+", 256)],
)
def test_priors_are_the_published_ones_within_the_limit(name: str, tokens: int) -> None:
    assert prior_of(name) == OutputLengths().of(name) == tokens <= most_of(name)


@pytest.mark.parametrize("fields", [{"generation": False}, {"kind": Kind.IMAGE}, {"max_output_tokens": 0}], ids=str)
def test_what_generates_no_tokens_decodes_nothing(fields: dict[str, Any]) -> None:
    assert not decodes(RequestInfo(api=Api.CHAT, **fields))
    assert decodes(RequestInfo(api=Api.CHAT))

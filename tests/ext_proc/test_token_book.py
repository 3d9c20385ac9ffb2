"""What several instances of ext_proc sent, against what the engines counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ext_proc.feed import SHARED, FleetFeed
from ext_proc.outputs import OutputBook
from ext_proc.tokens import TokenBook, read_shared
from tests.conftest import until
from tests.ext_proc.parts import NOW, Picker, sample
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api, Media
from tidegate.domain.tokens import FIRST_RATIO, Sent
from tidegate.store.memory import MemoryStore


def info(chars: int, **fields: Any) -> RequestInfo:
    return RequestInfo(**{"api": Api.CHAT, "prompt_chars": chars, **fields})


def engine(prompts: int, tokens: int) -> list[Any]:
    return [sample("10.0.0.1:8000", prompts_total=prompts, prompt_tokens_total=tokens)]


def test_an_instance_learns_from_what_all_instances_sent() -> None:
    one, other = TokenBook(["c"]), TokenBook(["c"])
    one.look({"c": engine(0, 0)}, [])
    for number in range(1, 21):
        for book in (one, other):
            for _ in range(10):
                book.dispatched("c", info(300))
        one.look({"c": engine(20 * number, 2000 * number)}, [read_shared(other.shared())])
    assert one.ratio_of("c") == pytest.approx(3.0, rel=0.02)


def test_an_instance_that_does_not_know_of_the_others_learns_nothing() -> None:
    book = TokenBook(["c"])
    for number in range(1, 41):
        for _ in range(10):
            book.dispatched("c", info(300))
        book.look({"c": engine(20 * number, 2000 * number)}, [])
    assert book.ratio_of("c") == FIRST_RATIO


def test_what_was_sent_is_told_in_four_numbers() -> None:
    book = TokenBook(["c"])
    book.dispatched("c", info(100, prompt_tokens=7, tool_bytes=20))
    book.dispatched("c", info(10, media={Media.IMAGE: 1}))
    book.dispatched("c", info(10, num_prompts=2, num_sequences=4))
    book.dispatched("c", info(1000, generation=False))
    assert book.shared() == {"c": [4, 140, 7, 3]}
    assert read_shared(book.shared()) == {"c": Sent(4, 140, 7, 3)}
    assert book.clusters["c"].estimated == 7 + 30 + 3 + 3 + 250


@pytest.mark.parametrize("told", [None, 7, [], {"c": 1}, {"c": [1, 2, 3]}, {"c": [1, 2, "3", 4]}, {"c": [True] * 4}])
def test_what_is_no_count_is_left_out(told: object) -> None:
    assert read_shared(told) == {}


def test_a_cluster_that_nobody_knows_has_the_first_ratio() -> None:
    assert TokenBook([]).ratio_of("") == FIRST_RATIO


async def test_the_feed_reads_engines_and_other_instances() -> None:
    picker, store = Picker(), MemoryStore(lambda: NOW)
    feed = FleetFeed(picker.view, store, tick_ms=20, clock=lambda: NOW)
    await store.beat("ext_proc", "other", {SHARED: {"phi-3": [5, 50, 0, 0]}}, ttl_ms=60_000)
    seen: list[Any] = []
    picker.tokens.look = lambda samples, others: seen.append((samples, others))  # type: ignore[method-assign]
    picker.view.sampled(engine(3, 30), NOW)
    task = asyncio.create_task(feed.follow_tokens(picker.tokens, OutputBook(["phi-3"]), "this"))
    try:
        await until(lambda: seen, what="a look")
    finally:
        task.cancel()
    [(samples, others)] = seen
    assert [one.prompts_total for one in samples["phi-3"]] == [3]
    assert others == [{"phi-3": Sent(5, 50, 0, 0)}]


def test_estimated_and_counted_tokens_are_on_the_metrics_page() -> None:
    picker = Picker()
    picker.tokens.look({"phi-3": engine(0, 0)}, [])
    picker.ask("phi-3")
    picker.tokens.dispatched("phi-3", info(100))
    picker.tokens.look({"phi-3": engine(1, 40)}, [])
    read = picker.registry.get_sample_value
    labels = {"cluster": "phi-3"}
    assert read("tidegate_ext_proc_estimated_prompt_tokens_total", labels) == 25
    assert read("tidegate_ext_proc_counted_prompt_tokens_total", labels) == 40
    assert read("tidegate_ext_proc_characters_per_token", labels) == FIRST_RATIO

"""Expected output lengths of a cluster, from what all instances of ext_proc sent and its engines generated."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ext_proc.outputs import OutputBook, OutputMetrics, read_outputs
from tests.ext_proc.parts import sample
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api


def info(**fields: Any) -> RequestInfo:
    return RequestInfo(**{"api": Api.CHAT, "prompt_chars": 100, **fields})


def engine(finished: int, tokens: int) -> list[Any]:
    return [sample("10.0.0.1:8000", requests_finished_total=finished, generation_tokens_total=tokens)]


def taught(tokens_each: int) -> OutputBook:
    """A book after 3,200 requests of which engines generated so many tokens each, half of them another instance's."""
    one, other = OutputBook(["c"]), OutputBook(["c"])
    one.look({"c": engine(0, 0)}, [])
    for number in range(1, 33):
        for _ in range(50):
            one.dispatched("c", info())
            other.dispatched("c", info())
        one.look({"c": engine(100 * number, 100 * number * tokens_each)}, [read_outputs(other.shared())])
    return one


def test_an_instance_learns_from_what_all_instances_sent() -> None:
    assert taught(700).expected("c", info()) == pytest.approx(700, rel=0.02)


@pytest.mark.parametrize(("limit", "expected"), [(5, 5), (32, 32), (0, 0)])
def test_no_more_is_expected_than_the_request_allows(limit: int, expected: int) -> None:
    assert taught(700).expected("c", info(max_output_tokens=limit)) == expected


def test_a_request_that_decodes_expects_a_token_and_one_that_does_not_none() -> None:
    book = taught(1)
    assert book.expected("c", info()) >= 1
    assert book.expected("c", info(generation=False)) == 0


def test_a_cluster_that_nobody_knows_has_the_prior() -> None:
    assert OutputBook([]).expected("", info()) == 256


def test_what_was_sent_is_told_by_class() -> None:
    book = OutputBook(["c", "d"])
    book.dispatched("c", info())
    book.dispatched("c", info(stream=True, num_prompts=3, num_sequences=3))
    book.dispatched("c", info(num_sequences=4))
    book.dispatched("c", info(generation=False))
    assert book.shared() == {"c": {"chat,-,2000": 1, "chat,stream,-,2000": 3, "?": 4}}
    assert read_outputs(book.shared()) == book.shared()


@pytest.mark.parametrize(
    "told", [None, 7, [], {"c": 1}, {"c": {"x": 1}}, {"c": {"chat,-,2000": "1"}}, {"c": {"chat,-,2000": -1}}]
)
def test_what_is_no_count_of_a_class_is_left_out(told: object) -> None:
    assert not any(read_outputs(told).values())


def test_expected_and_generated_tokens_are_on_the_metrics_page() -> None:
    registry, book = CollectorRegistry(), taught(500)
    OutputMetrics(registry, book)
    read, labels = registry.get_sample_value, {"cluster": "c"}
    assert read("tidegate_ext_proc_counted_output_tokens_total", labels) == 3200 * 500
    assert read("tidegate_ext_proc_expected_output_tokens_total", labels) == pytest.approx(1600 * 500, rel=0.05)
    assert read("tidegate_ext_proc_output_windows_total", labels) == 32
    by_class = {**labels, "class": "chat,-,2000"}
    assert read("tidegate_ext_proc_output_tokens", by_class) == pytest.approx(500, rel=0.02)

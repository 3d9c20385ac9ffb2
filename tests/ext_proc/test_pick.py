"""The least loaded replica that may be used, and nothing stale, closed or overrun by our own burst."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ext_proc.parts import TTL_MS, Picker, topology
from tidegate.domain.sample import Status

ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"


def fleet(replicas: int) -> Picker:
    picker = Picker(topology(replicas))
    for number in range(replicas):
        picker.sample(f"10.0.0.{number + 1}:8000")
    return picker


def test_a_burst_between_two_samples_spreads_over_idle_replicas() -> None:
    picker = fleet(8)
    firsts = Counter(picker.ask().destinations[0] for _ in range(64))
    assert max(firsts.values()) / (64 / 8) <= 1.25


def test_equal_replicas_take_turns() -> None:
    picker = fleet(4)
    firsts = []
    for _ in range(8):
        firsts.append(picker.ask().destinations[0])
        picker.now_ms += 100
        for number in range(4):
            picker.sample(f"10.0.0.{number + 1}:8000")
    assert Counter(firsts) == {f"10.0.0.{n}:8000": 2 for n in (1, 2, 3, 4)}


def test_a_queue_turns_requests_away() -> None:
    picker = fleet(2)
    picker.sample(ONE, waiting=5)
    assert {picker.ask().destinations[0] for _ in range(3)} == {TWO}


def test_a_stale_sample_scores_nothing() -> None:
    picker = fleet(2)
    picker.now_ms += TTL_MS + 1
    picker.sample(TWO, running=500)
    assert picker.ask().destinations == [TWO]


def test_without_a_fresh_replica_envoys_weights_decide() -> None:
    picker = fleet(2)
    picker.now_ms += TTL_MS + 1
    answer = picker.ask()
    assert (answer.cluster, answer.destinations) == ("phi-3", [])


def test_a_replica_that_was_never_sampled_is_left_to_envoy() -> None:
    assert Picker().ask().destinations == []


@pytest.mark.parametrize("status", [Status.UNREACHABLE, Status.LOADING, Status.ASLEEP, Status.DRAINING])
def test_a_replica_freshly_seen_not_to_serve_gets_nothing(status: Status) -> None:
    picker = fleet(2)
    picker.sample(ONE, status=status)
    assert {tuple(picker.ask().destinations) for _ in range(4)} == {(TWO,)}
    picker.sample(TWO, status=status)
    assert picker.ask().status == 503


def test_a_replica_that_was_unreachable_long_ago_is_unknown() -> None:
    picker = Picker(topology(1))
    picker.sample(ONE, status=Status.UNREACHABLE)
    assert picker.ask().status == 503
    picker.now_ms += TTL_MS + 1
    assert picker.ask().status is None


def test_weight_0_gets_nothing_and_its_end_brings_traffic_back() -> None:
    picker = fleet(2)
    picker.view.weighted({"phi-3": {ONE: 0, TWO: 1}})
    assert {tuple(picker.ask().destinations) for _ in range(4)} == {(TWO,)}
    picker.view.weighted({"phi-3": {ONE: 500, TWO: 0}})
    assert {tuple(picker.ask().destinations) for _ in range(4)} == {(ONE,)}


def test_all_weights_0_is_no_endpoint_in_both_kinds_of_cluster() -> None:
    picker = fleet(2)
    picker.view.weighted({"phi-3": {ONE: 0, TWO: 0}, "qwen": {"10.0.1.1:8000": 0}})
    assert [picker.ask(model).status for model in ("phi-3", "qwen2.5-72b")] == [503, 503]

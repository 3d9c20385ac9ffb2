"""Who is named: the replica where the first token comes soonest, of those that may be, and nobody by his place."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.pick.parts import CAPACITY, NOW, TTL_MS, Fleet, address, sample
from tidegate.domain.pick.picker import ClusterPicker
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.verdict import Verdict
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import Status

ONE, TWO, THREE = (address(n) for n in range(3))
MARKS, ENDS = (11, 12, 13, 14), (1000, 2000, 3000, 4000)
LONG = Work(prompt_tokens=4100, output_tokens=10, marks=MARKS, ends=ENDS)


# A burst, and equals.


@pytest.mark.parametrize("tokens", [60, 1000, 20_000])
def test_a_burst_between_two_samples_spreads_over_idle_replicas(tokens: int) -> None:
    counts = Fleet(8).burst(64, Work(prompt_tokens=tokens, output_tokens=200))
    assert max(counts.values()) / 8 <= 1.25


def test_two_are_named_and_the_better_one_first() -> None:
    fleet = Fleet(3)
    fleet.picker.sent(ONE, Work(prompt_tokens=50_000), NOW)
    fleet.picker.sent(THREE, Work(prompt_tokens=5_000), NOW)
    pick = fleet.picker.pick(Work(prompt_tokens=100), NOW)
    assert [one.address for one in pick.chosen] == [TWO, THREE]
    assert pick.chosen[0].cost < pick.chosen[1].cost


@settings(max_examples=10)
@given(st.integers(2, 6), st.data())
def test_two_equals_share_evenly_wherever_they_stand(replicas: int, data: st.DataObject) -> None:
    pair = data.draw(st.lists(st.integers(0, replicas - 1), min_size=2, max_size=2, unique=True))
    fleet = Fleet(replicas)
    for number in set(range(replicas)) - set(pair):
        fleet.picker.sent(address(number), Work(prompt_tokens=100_000), NOW)
    firsts = Counter(fleet.named()[0] for _ in range(100))
    assert set(firsts) == {address(number) for number in pair}
    assert max(firsts.values()) <= 53


# Cost.


def test_the_cost_is_the_sum_of_its_parts_in_seconds() -> None:
    fleet = Fleet(2)
    fleet.picker.sent(ONE, Work(prompt_tokens=13_000), NOW)
    chosen = fleet.picker.pick(Work(prompt_tokens=100, output_tokens=100), NOW).chosen
    busy = next(one for one in chosen if one.address == ONE)
    assert busy.parts["wait"] == pytest.approx(13_000 / 14_000, rel=0.1)
    assert all(one.cost == pytest.approx(sum(one.parts.values())) for one in chosen)


def test_a_cached_prefix_draws_and_a_long_queue_repels() -> None:
    fleet = Fleet(2)
    fleet.picker.sent(TWO, LONG, NOW)
    fleet.now += 2000
    fleet.see(0)
    fleet.see(1, prompts_total=1, prompt_tokens_total=4100)
    assert {fleet.named(LONG)[0] for _ in range(8)} == {TWO}
    fleet.picker.sent(TWO, Work(prompt_tokens=20_000), fleet.now)
    assert fleet.named(LONG)[0] == ONE


def test_a_backlog_of_the_fleet_makes_misses_dearer() -> None:
    parts = []
    for price in (0.0, 10.0):
        fleet = Fleet(2, price=price)
        for replica in (ONE, TWO):
            fleet.picker.sent(replica, Work(prompt_tokens=14_000), NOW)
        parts.append(fleet.picker.pick(LONG, NOW).chosen[0].parts["prefill"])
    assert parts[1] / parts[0] == pytest.approx(1 + 10 * 14_000 / 14_000, rel=0.1)


def test_a_queue_at_one_replica_makes_misses_no_dearer() -> None:
    """Else a long prompt would follow its prefix into a queue without end, past idle replicas."""
    fleet = Fleet(2, price=100.0)
    for _ in range(50):
        fleet.picker.sent(ONE, LONG, NOW)
    assert fleet.named(LONG)[0] == TWO


def test_the_shared_first_block_of_all_prompts_draws_nobody() -> None:
    """In a real trace every prompt begins alike: longest prefix sends all of them to one replica."""
    fleet = Fleet(8)
    counts = Counter[str]()
    for n in range(160):
        fleet.now += 5
        work = Work(prompt_tokens=3000, output_tokens=50, marks=(7, 1000 + n), ends=(512, 3000))
        counts[fleet.send(work)[0]] += 1
    assert max(counts.values()) / 20 <= 1.3


def test_an_adapter_is_loaded_where_it_was_used() -> None:
    fleet = Fleet(2)
    fleet.see(1, loras=("sql",), max_loras=4)
    work = Work(prompt_tokens=50, adapter="sql")
    assert {fleet.named(work)[0] for _ in range(4)} == {TWO}
    assert fleet.picker.pick(work, NOW).chosen[1].parts["adapter"] == PickSettings().adapter_seconds


def test_a_session_returns_where_it_was() -> None:
    fleet = Fleet(4, session_seconds=1.0)
    work = Work(prompt_tokens=50, session="s")
    first, _ = fleet.send(work)
    fleet.now += 1000
    for number in range(4):
        fleet.see(number)
    assert {fleet.named(work)[0] for _ in range(8)} == {first}


def test_decoding_beside_many_is_dearer() -> None:
    fleet = Fleet(2, decode=1.0)
    fleet.see(0, running=100, kv_used_ratio=0.5)
    assert {fleet.named(Work(prompt_tokens=10, output_tokens=500))[0] for _ in range(4)} == {TWO}


def test_the_weighted_sum_weighs_prefix_queue_and_cache() -> None:
    fleet = Fleet(2, policy="weighted_sum")
    fleet.picker.sent(TWO, LONG, NOW)
    fleet.now += 100
    fleet.see(0)
    fleet.see(1, prompts_total=1)
    assert fleet.named(LONG)[0] == TWO
    fleet.see(1, prompts_total=1, waiting=9, kv_used_ratio=0.9)
    pick = fleet.picker.pick(LONG, fleet.now)
    assert pick.chosen[0].address == ONE
    assert set(pick.chosen[0].parts) == {"prefix", "queue", "kv"}


def test_tuning_holds_from_the_next_pick_on() -> None:
    fleet = Fleet(2)
    fleet.picker.tune(PickSettings(policy="weighted_sum"))
    assert "kv" in fleet.picker.pick(LONG, NOW).chosen[0].parts


# Fit.


def test_a_request_that_would_overflow_the_idle_looking_replica_goes_elsewhere() -> None:
    fleet = Fleet(2)
    fleet.see(0, kv_used_ratio=0.99)
    fleet.picker.sent(TWO, Work(prompt_tokens=100_000), NOW)
    assert fleet.named(Work(prompt_tokens=8_000))[0] == TWO
    assert fleet.named(Work(prompt_tokens=100))[0] == ONE


def test_what_fits_nowhere_is_full_and_what_was_sent_counts_before_any_sample_saw_it() -> None:
    fleet = Fleet(1)
    big = Work(prompt_tokens=CAPACITY // 2)
    assert fleet.picker.pick(big, NOW).verdict is Verdict.CHOSEN
    handle = fleet.picker.sent(ONE, big, NOW)
    assert fleet.picker.pick(big, NOW).verdict is Verdict.FULL
    fleet.picker.ended(handle, NOW)
    assert fleet.picker.pick(big, NOW).verdict is Verdict.CHOSEN


def test_a_demand_beyond_every_capacity_is_not_held_back_and_one_within_it_fits_an_empty_replica() -> None:
    fleet = Fleet(1)
    fleet.picker.sent(ONE, Work(prompt_tokens=CAPACITY // 2), NOW)
    assert fleet.picker.pick(Work(prompt_tokens=CAPACITY + 1), NOW).verdict is Verdict.CHOSEN
    assert fleet.picker.pick(Work(prompt_tokens=CAPACITY - 16), NOW).verdict is Verdict.FULL
    assert Fleet(1).picker.pick(Work(prompt_tokens=CAPACITY - 16), NOW).verdict is Verdict.CHOSEN


def test_a_demand_that_one_replica_can_hold_waits_for_that_one() -> None:
    fleet = Fleet(2)
    fleet.see(0, kv_capacity_tokens=CAPACITY // 10)
    assert fleet.named(Work(prompt_tokens=CAPACITY // 5)) == [TWO]


def test_answers_that_grow_need_their_room() -> None:
    fleet = Fleet(1)
    work = Work(prompt_tokens=1000, output_tokens=100_000)
    for n in range(4):
        fleet.picker.sent(ONE, work, NOW)
        fleet.now += 1000
        fleet.see(0, prompts_total=n + 1, running=n + 1, kv_used_ratio=0.01 * (n + 1))
    assert fleet.picker.pick(Work(prompt_tokens=1000, output_tokens=240_000), fleet.now).verdict is Verdict.FULL


def test_an_unknown_capacity_filters_nobody() -> None:
    fleet = Fleet(1)
    fleet.see(0, kv_capacity_tokens=None)
    assert fleet.picker.pick(Work(prompt_tokens=10**9), NOW).verdict is Verdict.CHOSEN


def test_a_full_replica_that_soon_has_room_costs_the_seconds_until_then() -> None:
    fleet = Fleet(2)
    for second in range(40):
        fleet.now += 1000
        fleet.see(0, running=50, kv_used_ratio=0.99, requests_finished_total=10 * second, prompts_total=10 * second)
        fleet.see(1, running=1, requests_finished_total=second)
    chosen = fleet.picker.pick(Work(prompt_tokens=8_000), fleet.now).chosen
    assert [one.address for one in chosen] == [TWO, ONE]
    assert 0 < chosen[1].parts["room"] < 2


def test_hold_says_full_while_every_wait_is_longer() -> None:
    fleet = Fleet(2)
    for replica in (ONE, TWO):
        fleet.picker.sent(replica, Work(prompt_tokens=28_000), NOW)
    small = Work(prompt_tokens=10)
    assert fleet.picker.pick(small, NOW).verdict is Verdict.CHOSEN
    assert fleet.picker.pick(small, NOW, hold_seconds=1.0).verdict is Verdict.FULL
    assert fleet.picker.pick(small, NOW, hold_seconds=3.0).verdict is Verdict.CHOSEN
    assert fleet.picker.pick(small, NOW + 1500, hold_seconds=1.0).verdict is Verdict.CHOSEN


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30_000), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 200_000),
    st.integers(0, 5_000),
)
def test_nobody_without_room_is_named(fleet_state: list[tuple[float, int, int]], prompt: int, output: int) -> None:
    fleet = Fleet(len(fleet_state))
    for number, (used, sent, running) in enumerate(fleet_state):
        fleet.see(number, kv_used_ratio=used, running=running)
        fleet.picker.sent(address(number), Work(prompt_tokens=max(1, sent)), NOW)
    work = Work(prompt_tokens=prompt, output_tokens=output)
    for name in fleet.named(work):
        used, sent, _ = fleet_state[[address(n) for n in range(len(fleet_state))].index(name)]
        assert CAPACITY * (1 - used) - sent >= min(CAPACITY, 1.3 * work.kv_tokens) - 1


# Who may be named at all.

SHUT: list[Any] = [
    pytest.param({"status": status}, id=str(status))
    for status in (Status.DRAINING, Status.ASLEEP, Status.LOADING, Status.UNREACHABLE)
]


@pytest.mark.parametrize("changes", SHUT)
def test_one_that_takes_nothing_is_never_named(changes: dict[str, Any]) -> None:
    fleet = Fleet(2)
    fleet.see(0, **changes)
    assert {tuple(fleet.named()) for _ in range(4)} == {(TWO,)}
    fleet.see(1, **changes)
    assert fleet.picker.pick(Work(prompt_tokens=1), NOW).verdict is Verdict.CLOSED
    assert fleet.picker.pick(Work(prompt_tokens=1), NOW + TTL_MS + 1).verdict is Verdict.UNKNOWN


def test_weight_0_is_never_named_until_it_ends() -> None:
    fleet = Fleet(2)
    fleet.picker.weighed(ONE, 0)
    assert fleet.named() == [TWO]
    fleet.picker.weighed(TWO, 0)
    assert fleet.picker.pick(Work(prompt_tokens=1), NOW).verdict is Verdict.CLOSED
    fleet.picker.weighed(ONE, 500)
    assert fleet.named() == [ONE]
    fleet.picker.weighed(ONE, None)
    assert fleet.named() == [ONE]


def test_a_stale_sample_is_unknown_and_so_is_a_replica_without_any_or_without_an_address() -> None:
    fleet = Fleet(1)
    assert fleet.picker.pick(Work(prompt_tokens=1), NOW + TTL_MS + 1).verdict is Verdict.UNKNOWN
    fleet.picker.joined(TWO, TWO)
    fleet.picker.joined(ONE, None)
    assert fleet.picker.pick(Work(prompt_tokens=1), NOW).verdict is Verdict.UNKNOWN


def test_an_empty_cluster_is_closed() -> None:
    assert Fleet(0).picker.pick(Work(prompt_tokens=1), NOW).verdict is Verdict.CLOSED


def test_the_lowest_priority_with_room_is_preferred() -> None:
    fleet = Fleet(3)
    for number, priority in enumerate((1, 0, 0)):
        fleet.picker.joined(address(number), address(number), priority)
    fleet.picker.sent(TWO, Work(prompt_tokens=50_000), NOW)
    fleet.picker.sent(THREE, Work(prompt_tokens=50_000), NOW)
    assert set(fleet.named()) == {TWO, THREE}
    fleet.see(1, kv_used_ratio=1.0)
    fleet.see(2, kv_used_ratio=1.0)
    assert fleet.named() == [ONE]


def test_among_others_only_where_none_of_those_serves() -> None:
    fleet = Fleet(3)
    assert fleet.named(among=[THREE]) == [THREE]
    fleet.see(2, status=Status.DRAINING)
    assert set(fleet.named(among=[THREE])) == {ONE, TWO}


def test_a_replica_with_work_that_makes_no_progress_loses_traffic_within_two_seconds() -> None:
    fleet = Fleet(2)
    for tick in range(21):
        fleet.now = NOW + 100 * tick
        fleet.see(0, running=3, kv_used_ratio=0.1, prompts_total=5, prompt_tokens_total=500)
        fleet.see(1, running=60 + tick % 2, kv_used_ratio=0.5, prompts_total=tick)
    assert fleet.named() == [TWO]
    fleet.see(0, running=3, kv_used_ratio=0.1, prompts_total=6, prompt_tokens_total=600)
    assert ONE in fleet.named()


def test_one_that_falls_silent_loses_traffic_within_two_seconds() -> None:
    fleet = Fleet(2)
    for tick in range(21):
        fleet.now = NOW + 100 * tick
        fleet.see(1, running=50, prompts_total=tick)
    assert fleet.named() == [TWO]


def test_when_all_are_silent_or_hung_they_are_named_all_the_same() -> None:
    fleet = Fleet(2)
    fleet.now += 2500
    assert set(fleet.named()) == {ONE, TWO}


def test_an_idle_replica_is_not_hung() -> None:
    fleet = Fleet(1)
    for tick in range(40):
        fleet.now = NOW + 100 * tick
        fleet.see(0)
    fleet.picker.joined(TWO, TWO)
    fleet.see(1)
    assert set(fleet.named()) == {ONE, TWO}


# A replica comes, goes, returns, tells nothing.


def test_a_replica_that_leaves_and_returns_owes_nothing() -> None:
    fleet = Fleet(2)
    handles = [fleet.picker.sent(ONE, LONG, NOW) for _ in range(5)]
    fleet.picker.left(ONE)
    assert fleet.named() == [TWO]
    fleet.picker.joined(ONE, ONE)
    fleet.see(0)
    for handle in handles:
        fleet.picker.ended(handle, NOW)
        fleet.picker.ended(handle, NOW)
    parts = {one.address: one.parts for one in fleet.picker.pick(LONG, NOW).chosen}
    assert parts[ONE]["wait"] == 0
    assert parts[ONE]["prefill"] == pytest.approx(parts[TWO]["prefill"], rel=0.01)


def test_an_engine_that_restarts_lost_its_queue_and_its_cache() -> None:
    fleet = Fleet(2)
    fleet.see(0, prompts_total=50)
    fleet.picker.sent(ONE, LONG, NOW)
    fleet.now += 500
    fleet.see(0, prompts_total=0)
    fleet.see(1)
    parts = {one.address: one.parts for one in fleet.picker.pick(LONG, fleet.now).chosen}
    assert parts[ONE]["wait"] == 0
    assert parts[ONE]["prefill"] == pytest.approx(parts[TWO]["prefill"], rel=0.01)


def test_a_late_sample_changes_nothing() -> None:
    fleet = Fleet(2)
    fleet.picker.sampled(sample(0, NOW - 500, status=Status.UNREACHABLE), NOW)
    assert set(fleet.named()) == {ONE, TWO}


def test_a_replica_without_metrics_counts_as_busy_as_the_mean() -> None:
    fleet = Fleet(3)
    fleet.see(2, running=None, waiting=None, prompts_total=None, prompt_tokens_total=None, kv_used_ratio=None)
    fleet.picker.sent(ONE, Work(prompt_tokens=56_000), NOW)
    fleet.picker.sent(TWO, Work(prompt_tokens=14_000), NOW)
    pick = fleet.picker.pick(Work(prompt_tokens=10), NOW)
    assert [one.address for one in pick.chosen] == [TWO, THREE]
    assert pick.chosen[1].parts["wait"] == pytest.approx(70_000 / 3 / 14_000, rel=0.1)


def test_without_metrics_it_still_gets_its_share_of_an_idle_fleet() -> None:
    fleet = Fleet(4)
    fleet.see(3, running=None, waiting=None, prompts_total=None, prompt_tokens_total=None, kv_used_ratio=None)
    counts = fleet.burst(80)
    assert 15 <= counts[address(3)] <= 25


def test_a_replica_that_begins_to_serve_starts_as_busy_as_the_mean_and_ramps() -> None:
    fleet = Fleet(2, ramp_seconds=10.0)
    fleet.picker.joined(THREE, THREE)
    fleet.see(2)
    shares = []
    for elapsed in (0, 5000, 10_000):
        fleet.now = NOW + elapsed
        for number in range(2):
            fleet.see(number, running=1, waiting=20, prompts_total=elapsed, prompt_tokens_total=1000 * elapsed)
        fleet.see(2, prompts_total=elapsed)
        first = fleet.picker.pick(Work(prompt_tokens=10), fleet.now).chosen[0]
        assert first.address == THREE
        shares.append(first.parts.get("ramp", 0.0))
    assert shares[0] > shares[1] > shares[2] == 0


# Several processes.


def test_dispatches_of_another_process_count_as_our_own() -> None:
    fleet, other = Fleet(2), Fleet(2)
    _, handle = fleet.send(LONG)
    record = fleet.picker.dispatch_record(handle)
    assert record is not None
    other.picker.sent_elsewhere(record, NOW)
    for one in (fleet, other):
        parts = {scored.address: scored.parts for scored in one.picker.pick(LONG, NOW).chosen}[record.address]
        assert parts["wait"] == pytest.approx(4100 / 14_000, rel=0.1)
        assert parts["prefill"] < 0.1


def test_a_dispatch_to_nobody_known_is_harmless() -> None:
    picker = ClusterPicker(PickSettings(), sample_ttl_ms=TTL_MS)
    handle = picker.sent(ONE, LONG, NOW)
    assert picker.dispatch_record(handle) is None
    picker.ended(handle, NOW)
    picker.sampled(sample(0), NOW)
    picker.weighed(ONE, 1)
    picker.left(ONE)


# Pictures.


def test_pictures_cost_their_pixel_steps() -> None:
    fleet = Fleet(2, pixel_steps_per_second=1e6)
    fleet.see(0, kv_capacity_tokens=None, prompts_total=None)
    fleet.see(1, kv_capacity_tokens=None, prompts_total=None)
    big = Work(prompt_tokens=10, pixel_steps=1e7)
    first, _ = fleet.send(big)
    pick = fleet.picker.pick(big, NOW)
    assert pick.chosen[0].address != first
    assert pick.chosen[1].parts["wait"] == pytest.approx(10, rel=0.1)
    assert math.isfinite(pick.chosen[1].cost)


@pytest.mark.parametrize("output_tokens", [0, 16, 150])
def test_a_burst_of_one_short_prompt_is_spread(output_tokens: int) -> None:
    work = Work(prompt_tokens=300, output_tokens=output_tokens, marks=(1, 2), ends=(100, 300))
    counts = Fleet(8).burst(64, work)
    assert max(counts.values()) / 8 <= 1.25

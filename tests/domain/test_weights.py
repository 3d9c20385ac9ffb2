"""The weight rule: examples and properties."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.memory import Memory, remembered
from tidegate.domain.ramp import FIRST_PART
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Kind, Precision
from tidegate.domain.weight_settings import WeightPolicy, WeightSettings
from tidegate.domain.weights import Replica, Rules, decide, held, target_share

NOW, TTL = 100_000, 3_000


def sample(address="a:1", *, kv=None, status=Status.READY, at=NOW, **fields):
    known = {"cluster": "c", "node": "n", "seq": 1}
    return EndpointSample(**known, address=address, sampled_at_ms=at, status=status, kv_used_ratio=kv, **fields)


def last(automatic, *, weight=None, at=NOW - 250, **fields):
    """What a decision left that gave this automatic weight, and `weight` to Envoy."""
    given = automatic if weight is None else weight
    return Memory(at_ms=at, weight=given, automatic=automatic, share=automatic / 1000, **fields)


def replica(address="a:1", *, kv=None, status=Status.READY, at=NOW, **fields):
    return Replica(address=address, sample=sample(address, kv=kv, status=status, at=at), **fields)


def weigh(*replicas, kind=Kind.LLM, now=NOW, **settings):
    rules = Rules(weight=WeightSettings(**settings))
    return decide(replicas, kind=kind, now_ms=now, sample_ttl_ms=TTL, rules=rules)


def test_weight_is_capacity_times_headroom():
    assert [d.weight for d in weigh(replica("a:1", kv=0.4), replica("b:1", kv=0.75))] == [600, 250]


def test_int4_earns_1_36_times_the_traffic_of_fp16():
    fp16, int4 = weigh(replica("a:1", kv=0.5), replica("b:1", kv=0.5, precision=Precision.INT4))
    assert int4.weight / fp16.weight == pytest.approx(1.36, rel=0.01)


@pytest.mark.parametrize("status", [s for s in Status if not s.takes_traffic])
def test_fresh_sample_that_takes_no_traffic_weighs_nothing(status):
    [decision] = weigh(replica(kv=0.1, status=status))
    assert decision.weight == 0
    assert status.value in decision.reason


def test_stale_sample_keeps_its_last_automatic_weight():
    [decision] = weigh(replica(kv=0.9, at=NOW - TTL - 1, memory=last(300)))
    assert (decision.weight, decision.status) == (300, None)
    assert decision.age_ms == TTL + 1


def test_stale_unreachable_is_unknown_not_zero():
    [decision] = weigh(replica(status=Status.UNREACHABLE, at=NOW - TTL - 1, memory=last(0)))
    assert decision.weight > 0


def test_stale_zero_stays_while_another_replica_has_a_weight():
    gone = replica("a:1", status=Status.UNREACHABLE, at=NOW - TTL - 1, memory=last(0))
    assert [one.weight for one in weigh(gone, replica("b:1", kv=0.5))] == [0, 500]
    assert [one.weight for one in weigh(gone, Replica(address="b:1", memory=last(7)))] == [0, 7]


def test_replica_without_sample_gets_the_mean_load_of_the_known():
    *_, unknown = weigh(replica("a:1", kv=0.2), replica("b:1", kv=0.6), Replica(address="c:1"))
    assert unknown.weight == 600


def test_asleep_replicas_do_not_count_in_the_mean():
    *_, unknown = weigh(replica("a:1", kv=0.2), replica("b:1", kv=1.0, status=Status.ASLEEP), Replica(address="c:1"))
    assert unknown.weight == 800


def test_fresh_sample_without_load_gets_the_mean_load_of_the_known():
    _, unknown = weigh(replica("a:1", kv=0.2), replica("b:1"))
    assert unknown.weight == 800
    assert unknown.load.total is None


def test_nothing_known_at_all_is_plain_capacity():
    assert [d.weight for d in weigh(Replica(address="a:1"), Replica(address="b:1"))] == [990, 990]


@pytest.mark.parametrize("pin", [0, 1, 1000])
def test_pin_is_the_weight(pin):
    [decision] = weigh(replica(kv=0.4, pinned=pin))
    assert (decision.weight, decision.automatic) == (pin, 600)


def test_pin_holds_without_a_fresh_sample():
    [decision] = weigh(Replica(address="a:1", pinned=7))
    assert decision.weight == 7


def test_pin_does_not_send_traffic_to_a_dead_replica():
    [decision] = weigh(replica(status=Status.UNREACHABLE, pinned=900))
    assert decision.weight == 0
    assert "pinned at 900 once it serves" in decision.reason


@pytest.mark.parametrize("reason", ["", "driver update"])
def test_drain_beats_a_pin(reason):
    [decision] = weigh(replica(kv=0.4, pinned=900, drained=reason))
    assert decision.weight == 0
    assert decision.reason.startswith("drained by the operator")


def test_small_changes_are_held_and_large_ones_are_not():
    assert held(500, 510) == 500
    assert held(500, 511) == 511
    assert held(0, 1) == 1
    assert held(None, 3) == 3


def test_explain_is_json_with_the_agreed_fields():
    [decision] = weigh(replica(kv=0.4, pinned=5))
    explained = json.loads(json.dumps(decision.explain()))
    assert explained["load"] == {"latency": None, "vram": 0.4, "entropy": None, "total": 0.4}
    assert set(explained) >= {
        "load", "capacity", "automatic", "weight", "pinned", "drained", "status", "age_ms", "stale", "reason",
        "smoothed", "plain_ewma", "steady", "share",
    }  # fmt: skip


def test_empty_cluster_has_no_weights():
    assert weigh() == []


samples = st.none() | st.builds(
    sample,
    kv=st.none() | st.floats(0, 1),
    status=st.sampled_from(Status),
    at=st.integers(NOW - 2 * TTL, NOW + TTL),
)
replicas = st.builds(
    Replica,
    address=st.just("a:1"),
    precision=st.sampled_from(Precision),
    sample=samples,
    pinned=st.none() | st.integers(0, 1000),
    drained=st.none() | st.text(max_size=3),
    memory=st.none() | st.builds(last, st.integers(0, 1000), weight=st.none() | st.integers(0, 1000)),
)


@given(st.lists(replicas, max_size=6))
def test_weights_are_bounded(cluster):
    numbered = [Replica(**{**_fields(r), "address": f"a:{i}"}) for i, r in enumerate(cluster, start=1)]
    for decision in weigh(*numbered):
        assert 0 <= decision.weight <= 1000
        assert 0 <= decision.automatic <= 1000


def _fields(r):
    return {name: getattr(r, name) for name in ("address", "precision", "sample", "pinned", "drained", "memory")}


@given(st.sampled_from(Precision), st.none() | st.floats(0, 1), st.none() | st.integers(0, 1000))
def test_ready_replica_without_orders_never_weighs_zero(precision, kv, before):
    _, decision = weigh(
        replica("a:1", precision=Precision.INT4),
        replica("b:1", kv=kv, precision=precision, memory=None if before is None else last(before)),
    )
    assert decision.weight >= 1


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1))
def test_target_never_rises_with_load(capacity, one, other):
    low, high = sorted((one, other))
    assert target_share(capacity, low) >= target_share(capacity, high)


@given(st.floats(0.1, 1), st.floats(0, 0.9))
def test_shares_follow_capacity(capacity, load):
    assert target_share(capacity, load) == pytest.approx(capacity * target_share(1.0, load), rel=0.02)


# --- policies, bounds ---------------------------------------------------------------------------------------


def test_static_policy_follows_the_number_format_alone():
    cluster = (replica("a:1", kv=0.9), replica("b:1", kv=0.1, precision=Precision.INT4))
    assert [d.weight for d in weigh(*cluster, policy=WeightPolicy.STATIC)] == [735, 990]


def test_latency_policy_follows_the_latency_part_alone():
    slow = Replica(address="a:1", sample=sample("a:1", kv=0.1, latency_p99_ms=30_000.0))
    quick = Replica(address="b:1", sample=sample("b:1", kv=0.9, latency_p99_ms=10_000.0))
    assert [d.weight for d in weigh(slow, quick, policy=WeightPolicy.LATENCY)] == [250, 500]


def test_bounds_of_the_automatic_weight_are_tunable_and_do_not_bind_a_pin():
    full, idle, pinned = replica("a:1", kv=1.0), replica("b:1", kv=0.0), replica("c:1", kv=0.5, pinned=1000)
    decided = weigh(full, idle, pinned, least=0.2, most=0.6)
    assert [d.weight for d in decided] == [200, 600, 1000]


# --- time ---------------------------------------------------------------------------------------------------


def follow(cluster, seconds, start=NOW, tick_ms=250, **settings):
    """Decide on samples that `cluster(at_ms)` gives, tick by tick; what each tick decided, by address."""
    memories, told = {}, []
    for at in range(start, start + int(seconds * 1000) + 1, tick_ms):
        replicas = [replace(one, memory=memories.get(one.address)) for one in cluster(at)]
        decided = weigh(*replicas, now=at, **settings)
        memories = {one.address: one.memory for one in decided}
        told.append({one.address: one for one in decided})
    return told


def test_new_replica_ramps_from_a_tenth_of_its_share_to_all_of_it():
    def cluster(at):
        old = [replica("a:1", kv=0.4, at=at)]
        return old if at < NOW + 5_000 else [*old, replica("b:1", kv=0.4, at=at)]

    shares = [told["b:1"].automatic / told["a:1"].automatic for told in follow(cluster, 25) if "b:1" in told]
    assert shares[0] == pytest.approx(FIRST_PART, rel=0.05)
    assert shares == sorted(shares)
    assert 0.4 < shares[30] < 0.7
    assert shares[61] == pytest.approx(1.0, rel=0.05)


def test_replica_that_comes_back_ramps_and_one_that_starts_alone_does_not():
    def cluster(at):
        down = NOW + 5_000 <= at < NOW + 8_000
        status = Status.UNREACHABLE if down else Status.READY
        return [replica("a:1", kv=0.4, at=at), replica("b:1", kv=0.4, at=at, status=status)]

    told = [(one["b:1"].weight, one["b:1"].reason) for one in follow(cluster, 10)]
    assert told[0][0] == 600
    assert [weight for weight, _ in told[20:32]] == [0] * 12
    assert told[32] == (60, "capacity x (1 - load), ramping up")


def test_ramp_of_no_seconds_is_none():
    _, new = weigh(replica("a:1", kv=0.4, memory=last(600)), replica("b:1", kv=0.4), ramp_seconds=0.0)
    assert new.weight == 600


def test_undrained_replica_ramps_and_an_unpinned_one_does_not():
    drained = replica("a:1", kv=0.4, memory=last(600, weight=0))
    pinned = replica("b:1", kv=0.4, memory=last(600, weight=900))
    assert [d.weight for d in weigh(drained, pinned)] == [60, 600]


def test_nothing_jumps_by_more_than_the_step_but_to_zero():
    def cluster(at):
        kv = 0.1 if at < NOW + 5_000 else 0.95
        return [replica("a:1", kv=kv, at=at), replica("b:1", kv=0.1, at=at)]

    told = follow(cluster, 30, alarm_ratio=0.05, settle_seconds=2.0, most_step=1.2)
    weights = [one["a:1"].memory.share for one in told]
    steps = [now / before for before, now in pairwise(weights)]
    assert min(steps) >= 1.2**-0.25 - 1e-9
    assert weights[-1] < 0.5 * weights[0]
    gone = replica("a:1", status=Status.UNREACHABLE, memory=last(900))
    assert [d.weight for d in weigh(gone, replica("b:1", kv=0.1, memory=last(900)), most_step=1.2)] == [0, 900]


def test_one_outlier_in_the_samples_moves_nothing():
    def cluster(at, strange=False):
        kv = 1.0 if strange and at == NOW + 5_000 else 0.4
        return [replica("a:1", kv=kv, at=at), replica("b:1", kv=0.4, at=at)]

    calm, disturbed = follow(cluster, 10), follow(lambda at: cluster(at, strange=True), 10)
    assert [one["a:1"].weight for one in calm] == [one["a:1"].weight for one in disturbed]


def test_a_look_between_ticks_is_no_input_of_the_average():
    def cluster(at):
        return [replica("a:1", kv=0.4 if at < NOW + 5_000 else 0.9, at=at), replica("b:1", kv=0.4, at=at)]

    often = follow(cluster, 10, tick_ms=50)
    assert len(often[-1]["a:1"].memory.smoothed.kept) <= 51


def test_what_is_published_is_enough_to_go_on_from():
    def cluster(at):
        return [replica("a:1", kv=0.3, at=at), replica("b:1", kv=0.6, at=at)]

    before = follow(cluster, 30)[-1]
    heirs = [
        replace(one, memory=remembered(json.loads(json.dumps(before[one.address].explain()))))
        for one in cluster(NOW + 30_250)
    ]
    assert [d.weight for d in weigh(*heirs, now=NOW + 30_250)] == [before[a].weight for a in ("a:1", "b:1")]


@pytest.mark.parametrize("told", [{}, {"automatic": "x"}, {"automatic": -1}, {"automatic": 1.5}, {"automatic": True}])
def test_garbage_is_not_remembered(told):
    assert remembered(told) is None


def test_garbage_beside_a_good_weight_is_unknown():
    memory = remembered({"automatic": 300, "share": "x", "smoothed": -1, "steady": None, "pace": float("nan")})
    assert memory == Memory(at_ms=0, weight=300, automatic=300, share=0.3)

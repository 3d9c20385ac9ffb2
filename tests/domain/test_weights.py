"""The weight rule: examples and properties."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.load import LoadRules
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Kind, Precision
from tidegate.domain.weights import Replica, automatic_weight, decide, held

NOW, TTL = 100_000, 3_000


def sample(address="a:1", *, kv=None, status=Status.READY, at=NOW):
    return EndpointSample(
        cluster="c", address=address, node="n", sampled_at_ms=at, seq=1, status=status, kv_used_ratio=kv
    )


def replica(address="a:1", *, kv=None, status=Status.READY, at=NOW, **fields):
    return Replica(address=address, sample=sample(address, kv=kv, status=status, at=at), **fields)


def weigh(*replicas, kind=Kind.LLM):
    return decide(replicas, kind=kind, now_ms=NOW, sample_ttl_ms=TTL, rules=LoadRules())


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
    [decision] = weigh(replica(kv=0.9, at=NOW - TTL - 1, last_automatic=300))
    assert (decision.weight, decision.status) == (300, None)
    assert decision.age_ms == TTL + 1


def test_stale_unreachable_is_unknown_not_zero():
    [decision] = weigh(replica(status=Status.UNREACHABLE, at=NOW - TTL - 1, last_automatic=0))
    assert decision.weight > 0


def test_stale_zero_stays_while_another_replica_has_a_weight():
    gone = replica("a:1", status=Status.UNREACHABLE, at=NOW - TTL - 1, last_automatic=0)
    assert [one.weight for one in weigh(gone, replica("b:1", kv=0.5))] == [0, 500]
    assert [one.weight for one in weigh(gone, Replica(address="b:1", last_automatic=7))] == [0, 7]


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
    assert set(explained) == {
        "load", "capacity", "automatic", "pinned", "drained", "status", "age_ms", "stale", "reason",
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
    last_automatic=st.none() | st.integers(0, 1000),
)


@given(st.lists(replicas, max_size=6))
def test_weights_are_bounded(cluster):
    numbered = [Replica(**{**_fields(r), "address": f"a:{i}"}) for i, r in enumerate(cluster, start=1)]
    for decision in weigh(*numbered):
        assert 0 <= decision.weight <= 1000
        assert 0 <= decision.automatic <= 1000


def _fields(r):
    return {
        name: getattr(r, name) for name in ("address", "precision", "sample", "pinned", "drained", "last_automatic")
    }


@given(st.sampled_from(Precision), st.none() | st.floats(0, 1), st.none() | st.integers(0, 1000))
def test_ready_replica_without_orders_never_weighs_zero(precision, kv, last):
    _, decision = weigh(
        replica("a:1", precision=Precision.INT4),
        replica("b:1", kv=kv, precision=precision, last_automatic=last),
    )
    assert decision.weight >= 1


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1))
def test_weight_never_rises_with_load(capacity, one, other):
    low, high = sorted((one, other))
    assert automatic_weight(capacity, low) >= automatic_weight(capacity, high)


@given(st.floats(0.1, 1), st.floats(0, 0.99))
def test_shares_follow_capacity(capacity, load):
    full, part = automatic_weight(1.0, load), automatic_weight(capacity, load)
    assert part == pytest.approx(capacity * full, abs=1.0)

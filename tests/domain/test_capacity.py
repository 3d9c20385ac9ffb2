"""What replicas deliver, from counters made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.capacity import NOTHING, WIDTH_SPELLS, Measured, capacities, observe
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Precision

FP16, INT4 = Precision.FP16, Precision.INT4


def sample(at_ms, generated, running=10, waiting=0):
    return EndpointSample(
        cluster="c", address="a:1", node="n", sampled_at_ms=at_ms, seq=1, status=Status.READY,
        running=running, waiting=waiting, generation_tokens_total=generated,
    )  # fmt: skip


def watch(seconds, per_second=500.0, *, running=10, waiting=0, start_ms=0, before=NOTHING):
    for at in range(start_ms, start_ms + int(seconds * 1000) + 1, 100):
        before = observe(before, sample(at, int(per_second * at / 1000), running, waiting))
    return before


def test_pace_is_tokens_a_second_of_one_running_request():
    assert watch(5).pace == pytest.approx(50.0)


def test_a_replica_that_halves_its_speed_is_half_as_fast_within_ten_seconds():
    before = watch(30)
    slow = watch(10, 250.0, start_ms=31_000, before=before)
    assert slow.pace == pytest.approx(25.0, rel=0.15)


def test_an_idle_replica_keeps_its_pace():
    assert watch(20, 0.0, running=0, start_ms=10_000, before=watch(9)).pace == pytest.approx(50.0)


def test_width_is_learned_from_saturation_alone():
    assert watch(30).width is None
    saturated = watch(30, waiting=3)
    assert saturated.width == pytest.approx(10.0)
    assert saturated.saturated_tokens_per_second == pytest.approx(500.0)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(None, id="no-sample"),
        pytest.param(sample(9_100, None), id="no-counter"),
        pytest.param(sample(9_100, 5), id="engine-began-anew"),
        pytest.param(sample(99_100, 50_000), id="long-silence"),
        pytest.param(sample(8_900, 4_450), id="clock-went-back"),
    ],
)
def test_what_is_no_measurement_teaches_nothing(odd):
    before = watch(9)
    after = observe(before, odd)
    assert (after.pace, after.width) == (before.pace, before.width)
    assert after.spell is None or after.spell.samples == 0


def test_the_same_sample_again_changes_nothing():
    before = watch(2.5)
    assert observe(before, sample(2_500, 1_250)) == before


def test_number_formats_decide_until_something_is_measured():
    assert capacities({"a": (FP16, NOTHING), "b": (INT4, NOTHING)}) == {"a": 1 / 1.36, "b": 1.0}


def test_measured_pace_overrides_the_number_format():
    told = capacities({"a": (FP16, Measured(pace=50.0)), "b": (INT4, Measured(pace=40.0))})
    assert told == {"a": 1.0, "b": 0.8}


def test_a_replica_without_measurement_counts_as_those_of_its_format():
    told = capacities({"a": (FP16, Measured(pace=50.0)), "b": (FP16, NOTHING), "c": (INT4, NOTHING)})
    assert told == pytest.approx({"a": 1 / 1.36, "b": 1 / 1.36, "c": 1.0})


def test_a_wider_batch_delivers_more_at_the_same_pace():
    wide = Measured(pace=50.0, width=200.0, spells=WIDTH_SPELLS)
    narrow = Measured(pace=50.0, width=100.0, spells=WIDTH_SPELLS)
    unknown = Measured(pace=50.0, width=10.0, spells=1)
    told = capacities({"a": (FP16, wide), "b": (FP16, narrow), "c": (FP16, unknown)})
    assert told == {"a": 1.0, "b": 0.5, "c": 0.75}


measured = st.builds(
    Measured,
    pace=st.none() | st.floats(0.01, 1e5),
    width=st.none() | st.floats(1, 1e4),
    spells=st.integers(0, 100),
)


@given(st.dictionaries(st.text(max_size=3), st.tuples(st.sampled_from(Precision), measured), min_size=1))
def test_the_largest_capacity_is_one_and_none_is_nothing(replicas):
    told = capacities(replicas)
    assert told.keys() == replicas.keys()
    assert max(told.values()) == 1.0
    assert min(told.values()) > 0


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=5), st.floats(0.1, 10))
def test_only_ratios_count(paces, factor):
    one = capacities({str(n): (FP16, Measured(pace=p)) for n, p in enumerate(paces)})
    other = capacities({str(n): (FP16, Measured(pace=p * factor)) for n, p in enumerate(paces)})
    assert one == pytest.approx(other)


def test_no_replica_has_no_capacity():
    assert capacities({}) == {}

"""The load index on made-up samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.load import LoadRules, LoadWeights, load_index, normal_latency, normal_vram
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Kind

RULES = LoadRules(latency_target_ms=1000.0)


def sample(**fields):
    known = {
        "cluster": "c",
        "address": "a:1",
        "node": "n",
        "sampled_at_ms": 0,
        "seq": 1,
        "status": Status.READY,
    }
    return EndpointSample(**(known | fields))


def test_worked_example_of_all_three_parts():
    load = load_index(sample(latency_p99_ms=1000.0, kv_used_ratio=0.8), Kind.LLM, RULES, entropy=0.25)
    assert load.total == pytest.approx(0.45 * 0.5 + 0.35 * 0.8 + 0.20 * 0.25)


def test_missing_part_is_left_out_and_the_others_count_more():
    load = load_index(sample(latency_p99_ms=1000.0, kv_used_ratio=0.8), Kind.LLM, RULES)
    assert load.entropy is None
    assert load.total == pytest.approx((0.45 * 0.5 + 0.35 * 0.8) / 0.80)


def test_nothing_known_is_unknown_not_zero():
    assert load_index(sample(), Kind.LLM, RULES).total is None


def test_parts_that_count_nothing_say_nothing():
    rules = LoadRules(weights=LoadWeights(latency=0.0, vram=1.0, entropy=0.0))
    assert load_index(sample(latency_p99_ms=5.0), Kind.LLM, rules).total is None


@pytest.mark.parametrize(
    ("expected", "kind", "fields"),
    [
        pytest.param(0.3, Kind.LLM, {"kv_used_ratio": 0.3, "vram_free_bytes": 1, "vram_total_bytes": 100}, id="llm"),
        pytest.param(None, Kind.LLM, {"vram_free_bytes": 1, "vram_total_bytes": 100}, id="llm-nvml-says-nothing"),
        pytest.param(0.75, Kind.DIFFUSION, {"vram_free_bytes": 25, "vram_total_bytes": 100}, id="diffusion"),
        pytest.param(None, Kind.DIFFUSION, {"kv_used_ratio": 0.3}, id="diffusion-without-nvml"),
        pytest.param(None, Kind.DIFFUSION, {"vram_free_bytes": 0, "vram_total_bytes": 0}, id="total-of-zero"),
        pytest.param(1.0, Kind.DIFFUSION, {"vram_free_bytes": 0, "vram_total_bytes": 9}, id="full"),
        pytest.param(0.0, Kind.DIFFUSION, {"vram_free_bytes": 10, "vram_total_bytes": 9}, id="clipped"),
    ],
)
def test_vram_part(expected, kind, fields):
    assert normal_vram(sample(**fields), kind) == expected


@pytest.mark.parametrize(
    ("expected", "p99"),
    [
        (0.0, 0.0),
        (0.5, 1000.0),
        (0.75, 3000.0),
        (1.0, float("inf")),
        (None, None),
        (None, -1.0),
        (None, float("nan")),
    ],
)
def test_latency_part(expected, p99):
    assert normal_latency(p99, 1000.0) == expected


ratios = st.none() | st.floats(0, 1)


@given(latency=st.none() | st.floats(0, 1e9), kv=ratios, entropy=ratios)
def test_load_lies_between_its_parts(latency, kv, entropy):
    load = load_index(sample(latency_p99_ms=latency, kv_used_ratio=kv), Kind.LLM, RULES, entropy=entropy)
    parts = [p for p in (load.latency, load.vram, load.entropy) if p is not None]
    if not parts:
        assert load.total is None
    else:
        assert load.total is not None
        assert min(parts) - 1e-9 <= load.total <= max(parts) + 1e-9


def test_explain_form_is_rounded_and_keeps_unknowns():
    load = load_index(sample(kv_used_ratio=1 / 3), Kind.LLM, RULES)
    assert load.as_dict() == {"latency": None, "vram": 0.3333, "entropy": None, "total": 0.3333}

"""Codecs: what is written is read back, and what strangers wrote is unknown, never an exception."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.samples import bare_endpoint, endpoint, tick
from tidegate.domain.sample import EndpointSample, NodeTick, Status
from tidegate.store import fields, schema

counts = st.none() | st.integers(0, 2**53)
amounts = st.none() | st.floats(0, 1e12)
ratios = st.none() | st.floats(0, 1)
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)

SAMPLES = st.builds(
    EndpointSample,
    cluster=st.sampled_from(["phi-3", "sdxl"]),
    address=st.sampled_from(["10.0.0.5:8000", "[::1]:1"]),
    node=words,
    sampled_at_ms=st.integers(0, 2**53),
    seq=st.integers(0, 2**53),
    status=st.sampled_from(Status),
    running=counts,
    waiting=counts,
    kv_used_ratio=ratios,
    kv_capacity_tokens=counts,
    block_size=counts,
    vram_free_bytes=counts,
    vram_total_bytes=counts,
    latency_p99_ms=amounts,
    tokens_per_second=amounts,
    prefix_hit_ratio=ratios,
    ttft_p99_ms=amounts,
    admission_rejections_total=counts,
    loras=st.lists(words, max_size=3).map(tuple),
    max_loras=counts,
    models=st.lists(words, max_size=3).map(tuple),
    precision=st.none() | words,
)


def as_reply(fields: dict[str, Any]) -> dict[bytes, bytes]:
    """What Redis answers after HSET of these fields."""
    return {name.encode(): value if isinstance(value, bytes) else str(value).encode() for name, value in fields.items()}


@given(SAMPLES)
def test_a_sample_survives_its_hash(sample: EndpointSample) -> None:
    reply = as_reply(schema.encode_endpoint(sample))
    assert sample == schema.decode_endpoint(sample.cluster, sample.address, reply)


@given(st.lists(SAMPLES, max_size=4))
def test_a_tick_survives_the_channel(samples: list[EndpointSample]) -> None:
    sent = tick(*samples)
    assert sent == schema.decode_tick(schema.encode_tick(sent))


@given(SAMPLES)
def test_decoding_field_by_field_agrees_with_the_fast_way(sample: EndpointSample) -> None:
    message = schema.encode_tick(tick(sample))
    assert schema.decode_tick(message) == schema._decode_tick_by_field(message)


def test_what_is_unknown_is_absent_from_hash_and_message() -> None:
    bare = bare_endpoint()
    assert set(schema.encode_endpoint(bare)) == {"node", "sampled_at_ms", "seq", "status"}
    [sent] = msgspec.json.decode(schema.encode_tick(tick(bare)))["endpoints"]
    assert set(sent) == {"cluster", "address", "node", "sampled_at_ms", "seq", "status"}


@given(st.dictionaries(st.sampled_from(sorted(schema.encode_endpoint(endpoint()))), st.binary(max_size=20)))
def test_no_hash_raises(noise: dict[str, bytes]) -> None:
    sample = schema.decode_endpoint("phi-3", "a:1", as_reply({**schema.encode_endpoint(endpoint()), **noise}))
    assert sample is None or sample.kv_used_ratio is None or 0 <= sample.kv_used_ratio <= 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=60))
def test_no_message_of_bytes_raises(message: bytes) -> None:
    decoded = schema.decode_tick(message)
    assert decoded is None or isinstance(decoded, NodeTick)


@given(st.sampled_from(sorted(schema.encode_endpoint(endpoint()))), json_values)
def test_a_bad_field_of_a_message_costs_at_most_its_endpoint(name: str, value: Any) -> None:
    raw = msgspec.json.decode(schema.encode_tick(tick(endpoint(), endpoint("10.0.0.6:8000"))))
    raw["endpoints"][0][name] = value
    decoded = schema.decode_tick(msgspec.json.encode(raw))
    assert decoded is not None
    assert decoded.endpoints[-1] == endpoint("10.0.0.6:8000")


def test_extra_fields_of_a_message_are_ignored() -> None:
    raw = msgspec.json.decode(schema.encode_tick(tick(endpoint())))
    raw["tomorrow"] = raw["node"]["tomorrow"] = raw["endpoints"][0]["tomorrow"] = [1]
    assert schema.decode_tick(msgspec.json.encode(raw)) == tick(endpoint())


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"node":' * 100_000], ids=["lists", "objects"])
def test_deep_nesting_is_garbage(deep: bytes) -> None:
    assert schema.decode_tick(deep) is None
    assert schema.from_json(deep) is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"ready", Status.READY), (b"banana", Status.UNREACHABLE), (b"", Status.UNREACHABLE), (None, Status.UNREACHABLE)],
)
def test_a_status_that_nobody_knows_takes_no_traffic(raw: bytes | None, expected: Status) -> None:
    assert fields.status(raw) == expected


@pytest.mark.parametrize("raw", [b"", b"-1", b"1_0", b" 1", b"1.5", b"x", b"9" * 30, True, -1, 1.5, "1", None, []])
def test_what_is_no_count_is_unknown(raw: Any) -> None:
    assert fields.count(raw) is None


@pytest.mark.parametrize("raw", [b"", b"nan", b"inf", b"-0.1", b"1e999", b"x", True, "1", None, {}, 10**400])
def test_what_is_no_amount_is_unknown(raw: Any) -> None:
    assert fields.amount(raw) is None


def test_a_ratio_above_one_is_unknown() -> None:
    assert fields.ratio(b"1.01") is None
    assert fields.ratio(b"1") == 1.0


@pytest.mark.parametrize("change", [{"running": -1}, {"kv_used_ratio": 1.5}, {"tokens_per_second": -0.5}])
def test_a_number_out_of_range_in_a_message_is_unknown(change: dict[str, Any]) -> None:
    decoded = schema.decode_tick(schema.encode_tick(tick(endpoint(**change))))
    assert decoded == tick(endpoint(**dict.fromkeys(change)))


def test_members_keep_colons_and_bars_of_the_right_half() -> None:
    assert schema.split_member(schema.member("xds", "a|b:1").encode()) == ("xds", "a|b:1")
    assert schema.split_member(b"no bar") is None

"""Bodies of hooks: whatever comes, it is read or it is garbage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.hooks.payload import MOST_ALERTS, Garbage, TooMany, read_alerts, read_annotation

NOW_MS = 1_700_000_000_000

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
alert = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.text(max_size=5), values, max_size=3) | values,
        "status": st.sampled_from(["firing", "resolved"]) | values,
        "startsAt": st.sampled_from(["2023-11-14T22:13:20Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]) | values,
    },
)
annotation = st.fixed_dictionaries(
    {},
    optional={
        "id": values, "time": values, "timeEnd": values, "updated": values, "text": values,
        "tags": st.lists(st.text(max_size=5), max_size=3) | values,
    },
)  # fmt: skip


@given(st.fixed_dictionaries({"alerts": st.lists(alert, max_size=3) | values}) | values)
def test_whatever_alertmanager_sends_is_read_or_garbage(body: object) -> None:
    try:
        found = read_alerts(json.dumps(body).encode(), NOW_MS)
    except Garbage:
        return
    assert found
    assert all(0 <= one.starts_ms <= NOW_MS + 300_000 for one in found)


@given(annotation | values)
def test_whatever_an_annotation_says_is_read_or_garbage(body: object) -> None:
    try:
        found = read_annotation(json.dumps(body).encode(), NOW_MS)
    except Garbage:
        return
    assert found.tags
    assert found.ident
    assert found.until_ms is None or found.from_ms < found.until_ms


@given(st.binary(max_size=64))
def test_bytes_are_read_or_garbage(body: bytes) -> None:
    for read in (lambda: read_alerts(body, NOW_MS), lambda: read_annotation(body, NOW_MS)):
        with pytest.raises(Garbage):
            read()


@pytest.mark.parametrize(
    ("said", "expected_ms"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000_123),
        ("0001-01-01T00:00:00Z", 0),
        ("2099-01-01T00:00:00Z", 0),
        ("2023-11-14T22:13:20", 0),
        (17, 0),
    ],
)
def test_times_are_read_to_the_millisecond_and_impossible_ones_say_nothing(said: object, expected_ms: int) -> None:
    body = {"alerts": [{"status": "firing", "labels": {}, "startsAt": said}]}
    assert read_alerts(json.dumps(body).encode(), NOW_MS)[0].starts_ms == expected_ms


@pytest.mark.parametrize(
    ("status", "starts", "ends", "expected"),
    [
        ("firing", "2023-11-14T22:13:10Z", "2023-11-14T22:13:15Z", (1_699_999_990_000, None)),
        ("resolved", "2023-11-14T22:13:10Z", "2023-11-14T22:13:15Z", (1_699_999_990_000, 1_699_999_995_000)),
        ("resolved", "2023-11-14T22:13:10Z", "2023-11-14T22:13:05Z", (1_699_999_990_000, 1_699_999_990_000)),
        ("resolved", "2023-11-14T22:13:10Z", "2023-11-14T22:14:00Z", (1_699_999_990_000, NOW_MS)),
        ("resolved", "2023-11-14T22:13:10Z", None, (1_699_999_990_000, 1_699_999_990_000)),
        ("resolved", None, "2023-11-14T22:13:15Z", (0, 1_699_999_995_000)),
        ("resolved", None, None, (0, 0)),
    ],
    ids=["firing", "resolved", "ends before it begins", "ends in the future", "no end", "no begin", "no time"],
)
def test_what_is_resolved_ended_no_earlier_than_it_began_and_no_later_than_now(
    status: str, starts: object, ends: object, expected: tuple[int, int | None]
) -> None:
    body = {"alerts": [{"status": status, "labels": {}, "startsAt": starts, "endsAt": ends}]}
    [found] = read_alerts(json.dumps(body).encode(), NOW_MS)
    assert (found.starts_ms, found.ended_ms) == expected


def test_more_alerts_than_anybody_looks_at_are_too_many() -> None:
    body = {"alerts": [{"status": "firing", "labels": {}}] * (MOST_ALERTS + 1)}
    with pytest.raises(TooMany, match="max_alerts"):
        read_alerts(json.dumps(body).encode(), NOW_MS)


@pytest.mark.parametrize("time", [NOW_MS // 1000, 0, -1, None, "1700000000000"])
def test_a_time_in_seconds_or_none_is_garbage(time: object) -> None:
    with pytest.raises(Garbage, match="milliseconds"):
        read_annotation(json.dumps({"time": time, "tags": ["release"]}).encode(), NOW_MS)


def test_an_annotation_written_in_the_future_does_not_outrank_others() -> None:
    told = [{"time": NOW_MS, "tags": ["x"], "updated": at} for at in (NOW_MS - 5, NOW_MS + 10**9)]
    assert [read_annotation(json.dumps(one).encode(), NOW_MS).updated_ms for one in told] == [NOW_MS - 5, 0]


def test_an_identifier_of_0_is_none() -> None:
    told = [{"id": 0, "time": at, "tags": ["x"]} for at in (NOW_MS, NOW_MS + 1)]
    assert len({read_annotation(json.dumps(one).encode(), NOW_MS).ident for one in told}) == 2


def test_tags_are_labels() -> None:
    told = {"time": NOW_MS, "tags": ["release", "cluster:phi-3", "replica=10.0.0.5:8000", ":x"]}
    expected = {"release": "", "cluster": "phi-3", "replica": "10.0.0.5:8000", ":x": ""}
    assert read_annotation(json.dumps(told).encode(), NOW_MS).labels == expected

"""Bodies of hooks: whatever comes, it is read or it is garbage."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.hooks.payload import Garbage, read_alerts, read_annotation

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
        found = read_annotation(json.dumps(body).encode())
    except Garbage:
        return
    assert found.tags
    assert found.ident
    assert found.until_ms is None or found.from_ms < found.until_ms


@given(st.binary(max_size=64))
def test_bytes_are_read_or_garbage(body: bytes) -> None:
    for read in (lambda: read_alerts(body, NOW_MS), lambda: read_annotation(body)):
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


def test_tags_are_labels() -> None:
    told = {"time": 1, "tags": ["release", "cluster:phi-3", "replica=10.0.0.5:8000", ":x"]}
    expected = {"release": "", "cluster": "phi-3", "replica": "10.0.0.5:8000", ":x": ""}
    assert read_annotation(json.dumps(told).encode()).labels == expected

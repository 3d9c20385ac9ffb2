"""The scanner of the text format."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from metrics_agent.scrape.exposition import Series, bucket_of, labels_of, scan

NAME = b"vllm:num_requests_running"


def one(line, name=NAME):
    [series] = scan(line, {name})[name]
    return series


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        pytest.param(3.0, b'vllm:num_requests_running{engine="0"} 3.0\r\n', id="crlf"),
        pytest.param(3.0, b"vllm:num_requests_running 3", id="no-labels"),
        pytest.param(3.0, b"vllm:num_requests_running{} 3", id="empty-labels"),
        pytest.param(1.0, b'vllm:num_requests_running { engine = "2" , model_name = "x" }  1e0', id="blanks"),
        pytest.param(2.0, b'vllm:num_requests_running{engine="1",} 2', id="trailing-comma"),
        pytest.param(3.0, b'vllm:num_requests_running{engine="0"} 3.0 1767225600.123', id="timestamp"),
        pytest.param(4.0, b'vllm:num_requests_running{a="}"} 4.0 # {trace_id="}"} 0.07 1.1', id="exemplar"),
        pytest.param(5.0, rb'vllm:num_requests_running{a="\"} 9 {",b="\\"} 5', id="escapes"),
        pytest.param(math.inf, b"vllm:num_requests_running +Inf", id="infinity"),
    ],
)
def test_value_is_read(expected, line):
    assert one(line).value == expected


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"# TYPE vllm:num_requests_running gauge", id="type"),
        pytest.param(b"# HELP vllm:num_requests_running {x} 3", id="help"),
        pytest.param(b'vllm:num_requests_running{engine="0"}', id="no-value"),
        pytest.param(b'vllm:num_requests_running{engine="0" 3', id="no-brace"),
        pytest.param(b'vllm:num_requests_running{a="\\', id="cut-in-an-escape"),
        pytest.param(b"vllm:num_requests_running three", id="no-number"),
        pytest.param(b'vllm:num_requests_running_total{engine="0"} 3', id="longer-name"),
        pytest.param(b"<html><body>502 Bad Gateway</body></html>", id="html"),
        pytest.param(b'{"detail":"Not Found"}', id="json"),
    ],
)
def test_line_that_is_no_sample_of_the_family_is_skipped(line):
    assert scan(line, {NAME}) == {}


def test_labels_have_their_escapes_resolved():
    series = one(rb'vllm:num_requests_running{model_name="C:\\models\\a \"b\", {c}=d, e",x="line\nbreak"} 3.0')
    assert labels_of(series) == {"model_name": 'C:\\models\\a "b", {c}=d, e', "x": "line\nbreak"}


def test_bucket_is_its_series_and_its_bound():
    series = Series(b'engine="0",le="+Inf",model_name="m"', 5.0)
    assert bucket_of(series) == (b'engine="0",model_name="m"', math.inf)
    assert bucket_of(Series(rb'role=",le=\"7\""', 5.0)) is None
    assert bucket_of(Series(b'le="nonsense"', 5.0)) is None


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.floats(allow_nan=False), max_size=6))
def test_whatever_the_official_client_writes_is_read_back(values):
    registry = CollectorRegistry()
    gauge = Gauge("vllm:x", "help", ["model_name", "engine"], registry=registry)
    for name, value in values.items():
        gauge.labels(name, "0").set(value)
    found = scan(generate_latest(registry), {b"vllm:x"}).get(b"vllm:x", [])
    assert {labels_of(s)["model_name"]: s.value for s in found} == values


@given(st.binary(max_size=300), st.integers(0, 60))
def test_any_bytes_are_scanned_without_an_error(noise, cut):
    line = b'vllm:num_requests_running{engine="0",model_name="a\\"b"} 3.0 # {t="x"} 1'
    scan(line[:cut] + noise + line[cut:], {NAME})

"""The scanner of the text format."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from metrics_agent.scrape.exposition import (
    LARGEST_VALUE,
    LONGEST_LABELS,
    MOST_LINES,
    MOST_SERIES,
    SEGMENT_BYTES,
    UNREAD,
    Scanner,
    histograms_of,
    labels_of,
)

NAME = b"vllm:num_requests_running"


scan = Scanner([NAME, b"vllm:x"]).scan


def one(line):
    [series] = scan(line)[NAME]
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
    assert one(line)[1] == expected


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
        pytest.param(b"vllm:num_requests_running 1_0", id="underscore"),
        pytest.param(b'vllm:num_requests_running{a="}"} 1_0', id="underscore-after-a-brace"),
        pytest.param(b'vllm:num_requests_running_total{engine="0"} 3', id="longer-name"),
        pytest.param(b"<html><body>502 Bad Gateway</body></html>", id="html"),
        pytest.param(b'{"detail":"Not Found"}', id="json"),
    ],
)
def test_line_that_is_no_sample_of_the_family_is_skipped(line):
    assert scan(line) == {}


def test_labels_have_their_escapes_resolved():
    series = one(rb'vllm:num_requests_running{model_name="C:\\models\\a \"b\", {c}=d, e",x="line\nbreak"} 3.0')
    assert labels_of(series[0]) == {"model_name": 'C:\\models\\a "b", {c}=d, e', "x": "line\nbreak"}


def test_histogram_is_its_series_and_its_bounds():
    lines = [(b'engine="0",le="+Inf",model_name="m"', 5.0), (b'engine="0",le="0.5",model_name="m"', 3.0)]
    [[series, bounds]] = histograms_of(lines).items()
    assert (bounds, labels_of(series)) == ({math.inf: 5.0, 0.5: 3.0}, {"engine": "0", "model_name": "m"})


@pytest.mark.parametrize(
    "line",
    [
        (rb'role=",le=\"7\""', 5.0),
        (b'le="nonsense"', 5.0),
        (b'le="1"', math.nan),
        (b'le="1"', math.inf),
        (b'le="1"', 2 * LARGEST_VALUE),
        (b'le="NaN"', 5.0),
        (b'le="1e300"', 5.0),
        (b'le="1_0"', 5.0),
    ],
)
def test_what_is_no_bucket_is_left_out(line):
    assert histograms_of([line]) == {}


def test_names_that_begin_alike_are_told_apart():
    names = [b"a", b"a_b", b"a_b_c", b"b"]
    found = Scanner(names).scan(b'a 1\na_b{x="1"} 2\na_b_c 3\nab 4\nb_ 5\nxb 6\n')
    assert {name: lines[0][1] for name, lines in found.items()} == {b"a": 1.0, b"a_b": 2.0, b"a_b_c": 3.0}


def test_line_without_its_brace_takes_nothing_from_the_next_line():
    assert scan(b'vllm:num_requests_running{engine="0" 3\nother{engine="1"} 4\n') == {}


@pytest.mark.parametrize("line", [b'{engine="%d"} 3\n', b'{engine="%d" 3\n', b"{engine='%d'} x\n"])
def test_family_of_too_many_lines_is_unread_and_others_are_read(line):
    lines = b"".join(NAME + line % n for n in range(MOST_SERIES + 1))
    assert scan(b"vllm:x 1\n" + lines + b"vllm:x 2\n") == {NAME: UNREAD, b"vllm:x": [(b"", 1.0), (b"", 2.0)]}


def test_family_of_as_many_series_as_may_be_is_read():
    assert len(scan((NAME + b" 1\n") * MOST_SERIES)[NAME]) == MOST_SERIES


def test_every_family_of_a_page_with_too_many_lines_is_unread():
    names = [b"family_%d" % n for n in range(MOST_LINES // MOST_SERIES + 1)]
    page = b"".join((name + b" 1\n") * MOST_SERIES for name in names)
    assert Scanner(names).scan(page) == dict.fromkeys(names, UNREAD)


@pytest.mark.parametrize("shift", range(-30, 31))
def test_line_at_the_end_of_a_segment_is_read_once(shift):
    filler = b"#" * (SEGMENT_BYTES + shift) + b"\n"
    assert scan(filler + NAME + b" 3\n" + NAME + b" 4") == {NAME: [(b"", 3.0), (b"", 4.0)]}


def test_series_with_absurd_labels_is_left_out():
    line = b'vllm:num_requests_running{a="%s"} 1\n'
    assert scan(line % (b"x" * LONGEST_LABELS)) == {}
    assert len(scan(line % b"x" + line % (b"x" * LONGEST_LABELS))[NAME]) == 1


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.floats(allow_nan=False), max_size=6))
def test_whatever_the_official_client_writes_is_read_back(values):
    registry = CollectorRegistry()
    gauge = Gauge("vllm:x", "help", ["model_name", "engine"], registry=registry)
    for name, value in values.items():
        gauge.labels(name, "0").set(value)
    found = scan(generate_latest(registry)).get(b"vllm:x", [])
    assert {labels_of(text)["model_name"]: value for text, value in found} == values


@given(st.binary(max_size=300), st.integers(0, 60))
def test_any_bytes_are_scanned_without_an_error(noise, cut):
    line = b'vllm:num_requests_running{engine="0",model_name="a\\"b"} 3.0 # {t="x"} 1'
    for text, _ in scan(line[:cut] + noise + line[cut:]).get(NAME, []):
        labels_of(text)

"""Pages in both formats, as Prometheus asks for them."""

from __future__ import annotations

import gzip
import math
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families as text_format

from ext_proc.metrics import ExtProcMetrics
from ext_proc.tokens import TokenBook
from tidegate.buckets import Buckets
from tidegate.exposition import Families, decode_life, encode_life, life_of, metric, page_of

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
open_metrics: Any = parser.text_string_to_metric_families
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def registry() -> CollectorRegistry:
    """Decisions of 30 µs and 3 ms, the latter in a sampled trace; a counter and a gauge with awkward labels."""
    made = CollectorRegistry()
    metrics = ExtProcMetrics(made, TokenBook(["phi-3"]))
    metrics.took(30e-6)
    metrics.took(3e-3, TRACE)
    Counter("tidegate_test_requests", "x", ["model"], registry=made).labels('a "quoted" \\ name\n').inc()
    Gauge("tidegate_test_ratio", "x", registry=made).set(math.inf)
    return made


def read(accept: str | None) -> list[Metric]:
    page = page_of(Families(registry()), accept, None)
    parse: Any = open_metrics if "openmetrics" in page.headers["Content-Type"] else text_format
    return list(parse(page.body.decode()))


def test_prometheus_gets_open_metrics_with_the_trace_of_the_bucket() -> None:
    page = page_of(Families(registry()), PROMETHEUS, None)
    assert page.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert page.body.endswith(b"# EOF\n")
    [decisions] = [one for one in open_metrics(page.body.decode()) if one.name == "tidegate_ext_proc_decision_seconds"]
    exemplars = [(one.labels["le"], one.exemplar) for one in decisions.samples if one.exemplar is not None]
    [(bound, exemplar)] = exemplars
    assert (bound, exemplar.labels, exemplar.value) == ("0.005", {"trace_id": TRACE}, 3e-3)


@pytest.mark.parametrize(
    "accept",
    [None, "", "*/*", "text/plain", "text/html", "application/openmetrics-text;version=x", ";;,,;=", "\x00"],
)
def test_anybody_else_gets_the_text_format(accept: str | None) -> None:
    page = page_of(Families(registry()), accept, None)
    assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"trace_id" not in page.body
    assert {one.name for one in text_format(page.body.decode())} >= {"tidegate_ext_proc_decision_seconds"}


def test_both_formats_say_the_same() -> None:
    said = [
        sorted((one.name, sorted(one.labels.items()), one.value) for family in read(accept) for one in family.samples)
        for accept in (None, PROMETHEUS)
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("accept", [None, PROMETHEUS])
def test_no_series_tells_when_another_began(accept: str | None) -> None:
    assert [one.name for family in read(accept) for one in family.samples if "created" in one.name] == []


@pytest.mark.parametrize(
    ("asked", "answered"), [("gzip", True), ("deflate, gzip;q=0.5", True), ("identity", False), (None, False)]
)
def test_gzip_when_asked(asked: str | None, answered: bool) -> None:
    page, plain = page_of(Families(registry()), None, asked), page_of(Families(registry()), None, None)
    assert (page.headers.get("Content-Encoding") == "gzip") == answered
    assert (gzip.decompress(page.body) if answered else page.body) == plain.body


def test_a_bucket_keeps_its_newest_trace_and_bounds_belong_to_the_lower_one() -> None:
    buckets = Buckets((1.0, 2.0))
    for value, trace in ((1.0, "a"), (0.5, "b"), (1.5, None), (3.0, None)):
        buckets.add(value, trace)
    family = HistogramMetricFamily("tidegate_x", "x", labels=["cluster"])
    buckets.into(family, ["phi-3"])
    counted = {one.labels.get("le", one.name): one.value for one in family.samples}
    assert counted == {"1.0": 2, "2.0": 3, "+Inf": 4, "tidegate_x_count": 4, "tidegate_x_sum": 6.0}
    assert [one.exemplar.labels for one in family.samples if one.exemplar] == [{"trace_id": "b"}]


def test_a_life_crosses_to_another_process_as_it_is() -> None:
    life = decode_life(encode_life(life_of("one", Families(registry()))))
    assert life is not None
    there = [metric(one.name, one.documentation, one.type, one.series) for one in life.families]
    assert _without_times(there) == _without_times(list(Families(registry()).collect()))


def _without_times(families: list[Metric]) -> list[object]:
    """An exemplar has the time at which it was taken."""
    return [
        (family.name, one.name, one.labels, one.value, one.exemplar and one.exemplar[:2])
        for family in families
        for one in family.samples
    ]


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x93\x01\x02\x03", b"<html>"])
def test_what_is_no_life_is_none(data: bytes) -> None:
    assert decode_life(data) is None

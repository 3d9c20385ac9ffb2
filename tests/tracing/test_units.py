"""What traces are made of, without a gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import grpc
import pytest
import structlog
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc import aio
from prometheus_client import CollectorRegistry

from ext_proc.about import fault_fields
from ext_proc.buffered import Attributes
from ext_proc.flow.later import Later, Reply
from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.spans import RequestSpans
from ext_proc.transport.grpcio import GrpcioServer
from ext_proc.transport.wire import WireServer
from tests.conftest import until
from tests.ext_proc.parts import Picker, body_message, topology
from tests.tracing.collector import collect_by_grpc
from tests.xds.worlds import DESIRED
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.trace_context import TraceContext, read_traceparent
from tidegate.settings.otlp_url import GRPC, HTTP, parse_otlp_url
from tidegate.telemetry import configure_logs
from tidegate.tracing import Span, open_spans
from xds_server.desired import Collector, Desired
from xds_server.resources import build
from xds_server.resources.names import OTLP_CLUSTER
from xds_server.type_urls import CLUSTER, ROUTE

TEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PARENT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
CANARY = "canary-of-a-prompt"


class Kept:
    """Spans as they are recorded."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def record(self, span: Span) -> None:
        self.spans.append(span)

    async def stop(self) -> None:
        pass

    def named(self, name: str) -> Span:
        (found,) = (span for span in self.spans if span.name == name)
        return found


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def picker(kept: Kept) -> Picker:
    picker = Picker(topology())
    picker.decider._spans = kept
    return picker


def test_a_traceparent_is_read_and_written() -> None:
    assert read_traceparent(TEXT) == PARENT
    assert PARENT.traceparent == TEXT
    assert read_traceparent(TEXT[:-1] + "0") == replace(PARENT, sampled=False)


@pytest.mark.parametrize(
    "text", ["", "x", TEXT + "-x", "01" + TEXT[2:], TEXT.upper(), TEXT.replace("00f067aa0ba902b7", "0" * 16)]
)
def test_a_malformed_traceparent_is_none(text: str) -> None:
    assert read_traceparent(text) is None


def test_an_endpoint_is_a_url() -> None:
    assert parse_otlp_url("http://h").address == "h:4317"
    assert parse_otlp_url("https://[::1]/base", HTTP).url == "https://[::1]:4318/base/v1/traces"
    assert parse_otlp_url("http://h:1/v1/traces", HTTP).url == "http://h:1/v1/traces"
    for wrong in ("h:1", "ftp://h", "http://u:canary@h", "http://h?key=canary", "http://h:x"):
        with pytest.raises(ValueError, match="OTLP") as refused:
            parse_otlp_url(wrong)
        assert "canary" not in str(refused.value)


def decided(picker: Picker, body: dict[str, Any], trace: TraceContext | None = PARENT) -> Reply:
    return picker.decider.decide(json.dumps(body).encode(), Attributes(pb.ProcessingRequest()), trace)


def test_an_unsampled_request_records_nothing(picker: Picker, kept: Kept) -> None:
    decided(picker, {"model": "phi-3"}, None)
    assert kept.spans == []


async def test_a_request_that_waits_and_whose_client_leaves_has_a_failed_span(picker: Picker, kept: Kept) -> None:
    for number in (1, 2):
        picker.sample(f"10.0.0.{number}:8000", kv_used_ratio=1.0, kv_capacity_tokens=10_000, block_size=16)
    reply = decided(picker, {"model": "phi-3", "messages": [{"role": "user", "content": "x"}]})
    assert isinstance(reply, Later)
    assert kept.spans == []
    reply.answer.cancel()
    await until(lambda: kept.spans, what="spans")
    assert kept.named("tidegate.ext_proc").error == "gone"
    assert kept.named("tidegate.wait").error == "gone"


def test_a_crash_is_a_failed_span_that_does_not_say_what_the_exception_says(picker: Picker, kept: Kept) -> None:
    def crash(*_: Any) -> Any:
        raise KeyError(CANARY)

    picker.decider._parse = crash
    with pytest.raises(KeyError) as crashed:
        decided(picker, {"model": "phi-3"})
    assert kept.named("tidegate.ext_proc").error == "KeyError"
    assert CANARY not in repr(kept.spans)
    told = fault_fields(crashed.value)
    assert told["error"] == "KeyError"
    assert told["trace_id"] == PARENT.trace_hex
    assert CANARY not in repr(told)


def test_spans_are_recorded_once(kept: Kept) -> None:
    spans = RequestSpans(kept, PARENT)
    spans.refused(Refusal(Reason.SATURATED, "full"))
    spans.gone()
    spans.crashed(ValueError(CANARY))
    assert [span.name for span in kept.spans] == ["tidegate.ext_proc", "tidegate.parse"]


async def test_spans_reach_a_collector_and_what_is_left_is_sent_at_the_end() -> None:
    collector = collect_by_grpc()
    registry = CollectorRegistry()
    try:
        spans = open_spans(collector.url, GRPC, "service", "instance", registry)
        assert spans is not None
        spans.record(Span(name="a", context=PARENT, parent=None, start_ns=1, end_ns=2, attributes={"x": ["1", "2"]}))
        spans.record(Span(name="b", context=PARENT, parent=PARENT, start_ns=1, end_ns=2, error="lost"))
        await spans.stop()
        assert collector.one(name="a").attributes == {"x": ["1", "2"]}
        assert collector.one(name="b").failed
        assert collector.one(name="b").attributes == {"error.type": "lost"}
        assert registry.get_sample_value("tidegate_trace_spans_total", {"outcome": "exported"}) == 2
    finally:
        collector.stop()


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    code = """
import sys, ext_proc.app, simulator.app, xds_server.app
from tidegate.tracing import open_spans
assert open_spans(None, "grpc", "service", "instance", None) is None
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # redis-py imports the SDK's metrics where it finds them.
    wanted = [name for name in done.stdout.split() if name.startswith(("tidegate.otlp", "opentelemetry.sdk.trace."))]
    assert wanted == []


class Crashes:
    """A session with a fault that repeats what a client sent."""

    def handle(self, _: Any) -> Any:
        raise ValueError(CANARY)


@pytest.mark.parametrize("server", [WireServer, GrpcioServer])
async def test_a_crash_is_logged_without_its_text(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("debug", "json")
    try:
        picker = Picker(topology())
        serving = server(Crashes, Health(), picker.metrics, max_body_bytes=1 << 20)
        address = await serving.start("127.0.0.1:0")
        async with aio.insecure_channel(address) as channel:
            call = channel.stream_stream(f"/{EXTERNAL_PROCESSOR}/Process")()
            await call.write(body_message(b"{}"))
            assert await call.code() is grpc.StatusCode.INTERNAL
            assert CANARY not in await call.details()
        await serving.stop(0)
    finally:
        structlog.reset_defaults()
    said = capsys.readouterr().err
    assert "ext_proc stream crashed" in said
    assert "in handle" in said
    assert CANARY not in said


def test_a_gateway_that_traces_nothing_is_told_nothing_of_it() -> None:
    assert b"opentelemetry" not in told(DESIRED)
    assert b"traceparent" not in told(DESIRED)


@pytest.mark.parametrize("path", [None, "/v1/traces"])
def test_a_gateway_that_traces_is_told_where_to_and_nothing_else_changes(path: str | None) -> None:
    traced = replace(DESIRED, collector=Collector(host="10.0.0.9", port=4317, path=path, ratio=0.25))
    built = build(traced)
    assert OTLP_CLUSTER in built[CLUSTER]
    assert b"traceparent" in told(traced)
    assert built[ROUTE] == build(DESIRED)[ROUTE]


def told(desired: Desired) -> bytes:
    return b"".join(message.SerializeToString() for kind in build(desired).values() for message in kind.values())

"""One request's trace through a real Envoy: client → gateway → ext_proc → engine, on both transports."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.tracing.collector import Collector, collect_by_grpc, collect_by_http
from tests.tracing.world import (
    CLIENT,
    MODEL,
    PROMPT,
    QUERY,
    SAMPLED,
    SECRETS,
    UNSAMPLED,
    USER,
    Traced,
    body_of,
    start_traced,
)
from tests.up.cluster import stop_up

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

ENVOY, EXT_PROC, ENGINE = "tidegate-envoy", "tidegate-ext-proc", "vllm"
CALL = "async envoy.service.ext_proc.v3.ExternalProcessor.Process egress"
TRACE = "TRACE"
MALFORMED = {
    "no-trace": "garbage",
    "zero-trace": f"00-{'0' * 32}-{CLIENT}-01",
    "zero-span": f"00-{TRACE}-{'0' * 16}-01",
    "upper-case": f"00-{'ABCDEF01' * 4}-{CLIENT}-01",
    "other-version": f"cc-{TRACE}-{CLIENT}-01",
    "longer": f"00-{TRACE}-{CLIENT}-01-more",
    "dashes": f"00-{'a' * 31}-0{CLIENT}-01",
}


@pytest.fixture(scope="module", params=["wire", "grpcio"])
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """With wire every request without a trace is sampled, and spans go by gRPC; with grpcio none is, and by HTTP."""
    by_grpc = request.param == "wire"
    collector: Collector = collect_by_grpc() if by_grpc else collect_by_http()
    how = ("--trace-ratio", "1") if by_grpc else ("--trace-ratio", "0", "--otlp-protocol", "http/protobuf")
    world = start_traced(tmp_path_factory.mktemp("traced"), collector, request.param, *how)
    try:
        world.ask("sampled", SAMPLED, tracestate="vendor=1")
        world.ask("unsampled", UNSAMPLED)
        world.ask("refused", SAMPLED, body=body_of("nobody"))
        world.ask("broken", SAMPLED, body=f'{{"model": "{PROMPT}'.encode())
        for name, header in MALFORMED.items():
            world.ask(name, header, tracestate="vendor=1")
        world.ask("absent")
        yield world
    finally:
        stop_up(world.up)
        collector.stop()


def test_every_request_is_answered(traced: Traced) -> None:
    good = ("sampled", "unsampled", "absent", *MALFORMED)
    assert {**dict.fromkeys(good, 200), "refused": 404, "broken": 400}.items() <= traced.sent.items()


def test_one_trace_goes_from_the_client_through_the_gateway_to_the_engine(traced: Traced) -> None:
    spans = traced.whole("sampled", 8)
    tried = f"router {MODEL} egress"
    parents = {
        name: next((n for n, s in spans.items() if s.id == span.parent), span.parent) for name, span in spans.items()
    }
    assert parents == {
        "ingress": CLIENT,
        CALL: "ingress",
        "tidegate.ext_proc": CALL,
        "tidegate.parse": "tidegate.ext_proc",
        "tidegate.wait": "tidegate.ext_proc",
        "tidegate.pick": "tidegate.ext_proc",
        tried: "ingress",
        "llm_request": tried,
    }
    assert {span.service for span in (spans["ingress"], spans[CALL], spans[tried])} == {ENVOY}
    assert {span.service for name, span in spans.items() if name.startswith("tidegate.")} == {EXT_PROC}
    assert spans["llm_request"].service == ENGINE
    assert traced.engine_saw("sampled")["traceparent"] == f"00-{traced.traces['sampled']}-{spans[tried].id}-01"
    assert traced.engine_saw("sampled")["tracestate"] == "vendor=1"


def test_spans_say_what_was_decided_and_how_long_each_part_took(traced: Traced) -> None:
    spans = traced.whole("sampled", 8)
    root, pick = spans["tidegate.ext_proc"], spans["tidegate.pick"]
    (engine,) = (one["address"] for one in traced.up.ready["engines"] if one["cluster"] == MODEL)
    host, _, port = engine.rpartition(":")
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.max_tokens": 2,
        "tidegate.cluster": MODEL,
        "tidegate.class": "default",
        "tidegate.reason": "chosen",
        "tidegate.estimated.output_tokens": 2,
        "server.address": host,
        "server.port": int(port),
    }
    assert root.attributes | wanted == root.attributes
    assert root.attributes["tidegate.estimated.prompt_tokens"] > 0
    assert pick.attributes["tidegate.pick.chosen.address"] == engine
    parts = {name: value for name, value in pick.attributes.items() if name.endswith("_seconds")}
    assert set(parts) > {"tidegate.pick.chosen.cost_seconds", "tidegate.pick.chosen.prefill_seconds"}
    assert not root.failed
    order = [spans[f"tidegate.{name}"] for name in ("parse", "wait", "pick")]
    assert [root.start, *(span.start for span in order)] == sorted([root.start, *(span.start for span in order)])
    assert max(span.end for span in order) <= root.end
    usage = spans["llm_request"].attributes
    assert usage["gen_ai.usage.completion_tokens"] == 2
    assert usage["gen_ai.usage.prompt_tokens"] > 0


def test_a_refusal_is_a_failed_span_with_its_reason(traced: Traced) -> None:
    refused = traced.whole("refused", 4)["tidegate.ext_proc"]
    assert refused.failed
    wanted = {"error.type": "model-not-found", "tidegate.reason": "model-not-found", "http.response.status_code": 404}
    assert refused.attributes | wanted == refused.attributes
    broken = traced.whole("broken", 4)
    assert broken["tidegate.ext_proc"].attributes["error.type"] == "invalid-json"
    assert broken["tidegate.parse"].failed


def test_what_is_not_sampled_is_passed_on_and_leaves_no_span(traced: Traced) -> None:
    traced.whole("sampled", 8)
    assert traced.engine_saw("unsampled")["traceparent"].startswith(f"00-{traced.traces['unsampled']}-")
    assert traced.engine_saw("unsampled")["traceparent"].endswith("-00")
    assert traced.collector.spans(trace=traced.traces["unsampled"]) == []


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_traceparent_counts_as_none_and_is_not_passed_on(traced: Traced, name: str) -> None:
    seen = traced.engine_saw(name)
    assert traced.trace_at_engine(name) not in MALFORMED[name].replace(TRACE, traced.traces[name]).lower()
    assert seen.get("tracestate", "") == ""


def test_a_request_without_a_trace_is_sampled_by_the_ratio(traced: Traced, request: pytest.FixtureRequest) -> None:
    trace, all_are = traced.trace_at_engine("absent"), "wire" in request.node.name
    assert traced.engine_saw("absent")["traceparent"].endswith("-01" if all_are else "-00")
    if all_are:
        assert traced.whole("absent", 8, trace)["ingress"].parent == ""
    else:
        traced.whole("sampled", 8)
        assert traced.collector.spans(trace=trace) == []


def test_lines_of_decisions_tell_request_and_trace(traced: Traced) -> None:
    picked, refused = traced.line("picked", "sampled"), traced.line("refused", "refused")
    assert picked["request_id"] == traced.engine_saw("sampled")["x-request-id"]
    assert picked["cluster"] == MODEL
    assert refused["reason"] == "model-not-found"


def test_no_secret_and_no_prompt_is_in_a_span_or_a_log(traced: Traced) -> None:
    traced.whole("sampled", 8)
    traced.whole("broken", 4)
    said = repr(traced.collector.spans()) + "".join(
        traced.log(part) for part in ("ext_proc", "xds", "outcomes", "agent", "envoy", *_engines(traced))
    )
    for canary in (*SECRETS.values(), "canary-cookie", "canary-authorization", PROMPT, USER, QUERY):
        assert canary not in said


def _engines(traced: Traced) -> list[str]:
    return [one["name"] for one in traced.up.ready["engines"]]


def test_decisions_have_the_trace_as_their_exemplar(traced: Traced) -> None:
    traced.ask("shown", SAMPLED)  # the newest of its bucket
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    page = httpx.get(traced.up.ready["metrics"]["ext_proc"], headers=accept, timeout=60).text
    assert f'trace_id="{traced.traces["shown"]}"' in page

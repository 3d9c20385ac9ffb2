"""A session answers each message of Envoy with the one answer that Envoy expects."""

from __future__ import annotations

import pytest
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from tests.ext_proc.parts import Answer, Picker, body_message, topology
from tidegate.domain.errors import ProtocolViolation
from tidegate.domain.sample import Status


def test_a_pick_cluster_names_cluster_and_two_replicas() -> None:
    picker = Picker()
    picker.sample("10.0.0.1:8000", running=5)
    picker.sample("10.0.0.2:8000", running=1)
    answer = picker.ask("phi-3")
    assert answer.metadata == {
        "tidegate": {"cluster": "phi-3"},
        "envoy.lb": {"x-gateway-destination-endpoint": "10.0.0.2:8000,10.0.0.1:8000"},
        "tidegate.request": {"model": "phi-3", "class": "default"},
    }


def test_a_weighted_cluster_leaves_the_replica_to_envoy() -> None:
    picker = Picker()
    picker.sample("10.0.1.1:8000", cluster="qwen")
    metadata = picker.ask("qwen2.5-72b").metadata
    assert metadata == {
        "tidegate": {"cluster": "qwen"},
        "tidegate.request": {"model": "qwen2.5-72b", "class": "default"},
    }


def test_the_route_cache_is_cleared_beside_a_header_mutation() -> None:
    common = Picker().ask().response.request_body.response
    assert common.clear_route_cache
    assert common.header_mutation.remove_headers
    assert not common.HasField("body_mutation")


REFUSALS = {
    "empty body": (b"", 400, "invalid-json", "invalid_request_error", "invalid_json", None),
    "not JSON": (b"model=phi-3", 400, "invalid-json", "invalid_request_error", "invalid_json", None),
    "cut JSON": (b'{"model": "phi-3"', 400, "invalid-json", "invalid_request_error", "invalid_json", None),
    "array": (b'[{"model": "phi-3"}]', 400, "invalid-json", "invalid_request_error", "invalid_json", None),
    "nested deeply": (
        b'{"a":' + b"[" * 100_000,
        400,
        "invalid-json",
        "invalid_request_error",
        "invalid_json",
        None,
    ),
    "no model": (b"{}", 400, "model-required", "invalid_request_error", "missing_required_parameter", "model"),
    "null model": (
        b'{"model": null}',
        400,
        "model-required",
        "invalid_request_error",
        "missing_required_parameter",
        "model",
    ),
    "empty model": (
        b'{"model": ""}',
        400,
        "model-required",
        "invalid_request_error",
        "missing_required_parameter",
        "model",
    ),
    "number as model": (b'{"model": 3}', 400, "invalid-request", "invalid_request_error", "invalid_value", "model"),
    "huge number as model": (
        b'{"model": 1e400}',
        400,
        "invalid-request",
        "invalid_request_error",
        "invalid_value",
        "model",
    ),
    "object as model": (b'{"model": {}}', 400, "invalid-request", "invalid_request_error", "invalid_value", "model"),
    "control characters": (
        b'{"model": "a\\r\\nx: 1"}',
        400,
        "invalid-request",
        "invalid_request_error",
        "invalid_value",
        "model",
    ),
    "unknown model": (
        b'{"model": "gpt-9"}',
        404,
        "model-not-found",
        "invalid_request_error",
        "model_not_found",
        "model",
    ),
    "no endpoint": (b'{"model": "nobody"}', 503, "no-endpoint", "server_error", "service_unavailable", None),
}


@pytest.mark.parametrize(("body", "status", "reason", "kind", "code", "param"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_answered_by_the_contract(
    body: bytes, status: int, reason: str, kind: str, code: str, param: str | None
) -> None:
    picker = Picker()
    picker.view.registered([], picker.now_ms)
    answer = picker.answer(body)
    assert answer.status == status
    assert answer.headers == {"content-type": "application/json", "x-tidegate-reason": reason}
    assert {**answer.error, "message": ""} == {"message": "", "type": kind, "param": param, "code": code}
    assert answer.error["message"].endswith(".")
    assert answer.response.immediate_response.details == f"tidegate_{reason}"
    assert not {"tidegate", "envoy.lb"} & answer.metadata.keys()


def test_a_long_model_name_is_not_repeated_whole() -> None:
    answer = Picker().ask("a" * 300)
    assert answer.status == 404
    assert len(answer.error["message"]) < 200


def test_a_body_over_the_limit_is_413_and_one_at_the_limit_passes() -> None:
    body = b'{"model": "phi-3"}'
    assert Picker(max_request_bytes=len(body)).answer(body).status is None
    over = Picker(max_request_bytes=len(body) - 1).answer(body)
    assert over.status == 413
    assert over.headers["x-tidegate-reason"] == "body-too-large"


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 400), ("br", 415), ("identity", None), ("", None)])
def test_an_encoding_is_believed_and_checked(encoding: str, status: int | None) -> None:
    answer = Picker().answer(b'{"model": "phi-3"}', **{"request.headers['content-encoding']": encoding})
    assert answer.status == status


def test_an_encoding_that_is_not_read_is_answered_with_those_that_are() -> None:
    answer = Picker().answer(b'{"model": "phi-3"}', **{"request.headers['content-encoding']": "br"})
    assert answer.headers["accept-encoding"] == "gzip, zstd"


def test_a_request_without_a_model_gets_the_default() -> None:
    assert Picker(topology(default_model="phi-3")).answer(b'{"messages": []}').cluster == "phi-3"


def test_the_model_is_found_behind_a_long_text() -> None:
    body = b'{"messages": [{"content": "' + b"x" * 100_000 + b'"}], "model": "phi-3"}'
    assert Picker().answer(body).cluster == "phi-3"


def test_a_model_inside_another_object_is_not_the_model() -> None:
    assert Picker().answer(b'{"extra": {"model": "phi-3"}}').headers["x-tidegate-reason"] == "model-required"


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (pb.ProcessingRequest(request_headers=pb.HttpHeaders()), "request_headers"),
        (pb.ProcessingRequest(response_headers=pb.HttpHeaders()), "response_headers"),
        (pb.ProcessingRequest(response_body=pb.HttpBody(body=b"x")), "response_body"),
        (pb.ProcessingRequest(request_trailers=pb.HttpTrailers()), "request_trailers"),
        (pb.ProcessingRequest(response_trailers=pb.HttpTrailers()), "response_trailers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_messages_get_their_own_empty_answer(message: pb.ProcessingRequest, answer: str) -> None:
    data = Picker().session().handle(message.SerializeToString())
    assert pb.ProcessingResponse.FromString(data).WhichOneof("response") == answer


def test_attributes_of_the_first_message_hold_when_the_body_is_the_second() -> None:
    headers = pb.ProcessingRequest(request_headers=pb.HttpHeaders())
    headers.attributes["envoy.filters.http.ext_proc"]["request.headers['content-encoding']"] = "br"
    session = Picker().session()
    session.handle(headers.SerializeToString())
    assert Answer.read(session.handle(body_message(b"{}"))).status == 415


def test_a_body_before_trailers_is_decided() -> None:
    message = pb.ProcessingRequest(request_body=pb.HttpBody(body=b'{"model": "phi-3"}', end_of_stream=False))
    assert Answer.read(Picker().session().handle(message.SerializeToString())).cluster == "phi-3"


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff", b"", pb.ProcessingRequest(observability_mode=True).SerializeToString(), b"\xfa\x07\x01x"],
    ids=["not protobuf", "empty", "no oneof", "unknown field"],
)
def test_a_message_without_a_known_request_breaks_the_protocol(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        Picker().session().handle(data)


def test_a_second_body_breaks_the_protocol() -> None:
    session = Picker().session()
    session.handle(body_message(b"{}"))
    with pytest.raises(ProtocolViolation):
        session.handle(body_message(b"{}"))


@pytest.mark.parametrize("mode", ["STREAMED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED"])
def test_a_body_in_parts_breaks_the_protocol(mode: str) -> None:
    message = pb.ProcessingRequest.FromString(body_message(b"{"))
    message.protocol_config.request_body_mode = ProcessingMode.BodySendMode.Value(mode)
    with pytest.raises(ProtocolViolation):
        Picker().session().handle(message.SerializeToString())


def test_equal_decisions_are_equal_bytes() -> None:
    assert [Picker().session().handle(body_message(b'{"model": "phi-3"}')) for _ in range(2)] == [
        Picker().session().handle(body_message(b'{ "model" : "phi-3" }'))
    ] * 2


def test_every_decision_and_refusal_is_counted() -> None:
    picker = Picker()
    picker.sample("10.0.0.1:8000")
    for model in ("phi-3", "phi-3", "qwen2.5-72b", "gpt-9"):
        picker.ask(model)
    read = picker.registry.get_sample_value
    assert read("tidegate_ext_proc_decisions_total", {"cluster": "phi-3", "by": "pick"}) == 2
    assert read("tidegate_ext_proc_decisions_total", {"cluster": "qwen", "by": "weights"}) == 1
    assert read("tidegate_ext_proc_refusals_total", {"reason": "model-not-found"}) == 1
    assert read("tidegate_ext_proc_decision_seconds_count") == 4


def test_a_draining_replica_is_never_named() -> None:
    picker = Picker()
    picker.sample("10.0.0.1:8000", status=Status.DRAINING)
    picker.sample("10.0.0.2:8000", running=90)
    assert picker.ask().destinations == ["10.0.0.2:8000"]

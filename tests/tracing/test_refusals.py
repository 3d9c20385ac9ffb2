"""Whatever the reason of a refusal: its span and its line in the log say so, and nothing of what the client sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from ext_proc.buffered import Attributes
from ext_proc.flow.holds import Holds
from ext_proc.flow.later import Later
from ext_proc.flow.sample_log import DecisionLog
from tests.ext_proc.parts import FILTER, Answer, Picker, topology
from tests.flow.test_gate import crowd, full
from tests.tracing.test_units import PARENT, Kept
from tidegate.domain.actions.effects import Effects, Hold
from tidegate.domain.refusal import SHAPES, Reason
from tidegate.domain.sample import Status
from tidegate.domain.wire import CONTENT_ENCODING_ATTRIBUTE, PATH_ATTRIBUTE, header_attribute
from tidegate.exposition import OPEN_METRICS, Families, page_of

CANARY = "canary"
HEADERS = ("authorization", "cookie", "x-api-key", "x-user", "user-agent", "x-request-id", "traceparent", "baggage")


def body(model: Any = "phi-3", **more: Any) -> bytes:
    """A prompt, a user and a session that nobody else may read."""
    said = [{"role": "user", "content": f"{CANARY}-prompt"}]
    return json.dumps({"model": model, "messages": said, "user": f"{CANARY}-user", **more}).encode()


def small() -> Picker:
    return Picker(topology(), max_request_bytes=40)


def held() -> Picker:
    picker = Picker(topology())
    picker.decider._holds = Holds(["phi-3"], lambda: picker.now_ms)
    picker.decider._holds.effects = Effects(holds=(Hold(act="a", less_urgent_than=-1),))
    return picker


def drained() -> Picker:
    picker = full(1)
    crowd(picker, 0.0, status=Status.DRAINING)
    return picker


CASES: dict[Reason, tuple[Callable[[], Picker], bytes]] = {
    Reason.INVALID_JSON: (Picker, body()[:-1]),
    Reason.MODEL_REQUIRED: (Picker, body(None)),
    Reason.INVALID_REQUEST: (Picker, body([f"{CANARY}-model"])),
    Reason.MODEL_NOT_FOUND: (Picker, body("somebody else's")),
    Reason.BODY_TOO_LARGE: (small, body()),
    Reason.UNSUPPORTED_ENCODING: (Picker, body()),
    Reason.SATURATED: (lambda: full(max_requests=0), body()),
    Reason.HELD: (held, body()),
    Reason.QUEUE_TIMEOUT: (lambda: full(timeout_ms=1000), body()),
    Reason.NO_ENDPOINT: (drained, body()),
}


def test_every_reason_is_a_case() -> None:
    assert set(CASES) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
async def test_a_refusal_is_told_by_its_reason_and_by_nothing_that_was_sent(reason: Reason) -> None:
    make, sent = CASES[reason]
    picker, kept = make(), Kept()
    picker.decider._spans, picker.decider._log = kept, DecisionLog(structlog.get_logger(), 1)
    with structlog.testing.capture_logs() as lines:
        answer = await refused(picker, sent, f"br-{CANARY}" if reason is Reason.UNSUPPORTED_ENCODING else "")
    assert (answer.status, answer.headers["x-tidegate-reason"]) == (SHAPES[reason].status, reason)
    root = kept.named("tidegate.ext_proc")
    assert root.error == reason
    assert root.attributes["http.response.status_code"] == SHAPES[reason].status
    assert [(line["event"], line["reason"], line["trace_id"]) for line in lines] == [
        ("refused", reason, PARENT.trace_hex)
    ]
    page = page_of(Families(picker.registry), OPEN_METRICS, None).body.decode()
    assert f'tidegate_ext_proc_refusals_total{{reason="{reason}"}} 1.0' in page
    assert CANARY not in f"{kept.spans} {lines} {page}"
    assert f"{CANARY}-prompt" not in str(picker.recent.last(1))


async def refused(picker: Picker, sent: bytes, encoding: str) -> Answer:
    """The answer, once there is one: a request that waits sees its deadline pass."""
    message = pb.ProcessingRequest()
    said = {PATH_ATTRIBUTE: "/v1/chat/completions", CONTENT_ENCODING_ATTRIBUTE: encoding}
    for name, value in {**said, **{header_attribute(name): f"{CANARY}-{name}" for name in HEADERS}}.items():
        message.attributes[FILTER][name] = value
    reply = picker.decider.decide(sent, Attributes(message), PARENT)
    if not isinstance(reply, Later):
        return Answer.read(reply)
    picker.now_ms += 1000
    crowd(picker, 1.0)
    return Answer.read(await asyncio.wait_for(reply.answer, 60))


async def test_what_is_held_says_of_whom() -> None:
    picker, kept = held(), Kept()
    picker.decider._spans = kept
    await refused(picker, body(), "")
    wanted = {"tidegate.cluster": "phi-3", "tidegate.class": "default", "tidegate.priority": 0}
    assert kept.named("tidegate.ext_proc").attributes.items() >= wanted.items()

"""Every kind of body that people send, through a real Envoy: status, what was read, and what the engine received."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.cases.bodies import Case, cases
from tests.gateway.wire import Answer
from tests.gateway.world import LIMIT_BYTES, World

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

READ = [case for case in cases() if case.method == "POST" and "status" not in case.expect]
REFUSED = [case for case in cases() if "status" in case.expect and not case.id.startswith("145")]
UNREAD = {
    "stream": False,
    "num_prompts": 1,
    "num_sequences": 1,
    "max_output_tokens": None,
    "prompt_tokens": None,
    "generation": True,
    "kind": "text",
    "media": {},
    "loras": [],
    "priority": 0,
    "user": None,
    "image": None,
}
AFFINITY = ("prompt_cache_key", "previous_response_id", "session_id", "media_uuids")


def ask(world: World, case: Case) -> tuple[Answer, bytes]:
    """The answer to a case and the bytes that were sent."""
    body, cut = case.content(LIMIT_BYTES), (case.transfer or {}).get("chunks")
    sizes = [1] * len(body) if cut == "1" else cut
    return world.send(case.method, case.path, headers=list(case.headers.items()), body=body, chunks=sizes), body


def told(request: dict[str, Any]) -> dict[str, Any]:
    """The debug page's fields in the shape of the table's."""
    image = request["image"]
    sizes = None if image is None else [image["width"], image["height"], image["steps"], image["images"]]
    known = {name: request["affinity"][name] for name in AFFINITY if request["affinity"][name]}
    return {**request, "image": sizes, **known, "cache_salt": request["affinity"]["cache_salt"]}


@pytest.mark.parametrize("case", READ, ids=lambda case: case.id)
def test_what_is_read_and_forwarded(world: World, case: Case) -> None:
    answer, body = ask(world, case)
    assert "x-sim-engine" in answer.headers, (answer.status, answer.body[:300])
    last, received = world.read(), world.received()
    assert last["refused"] is None
    expected = {**UNREAD, **case.expect}
    if "cache_salt" in expected:
        expected["cache_salt"] = True  # the page says that there is one, and no more
    read = told(last["request"])
    assert {name: read[name] for name in expected if name in read} == expected
    assert (received["path"], received["body_bytes"]) == (case.path, len(body))
    assert received["sha256"] == hashlib.sha256(body).hexdigest()
    assert "x-gateway-destination-endpoint" not in {name.lower() for name, _ in received["headers"]}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_is_refused(world: World, case: Case) -> None:
    before = world.received()
    answer, _ = ask(world, case)
    assert (answer.status, answer.reason) == (case.expect["status"], case.expect["reason"])
    assert set(answer.json["error"]) == {"message", "type", "param", "code"}
    assert answer.headers["content-type"] == "application/json"
    assert world.received() == before


def test_a_body_that_breaks_off_before_its_content_length_reaches_nobody(world: World) -> None:
    """The table says 400; a client that hung up in the middle of its body can as well be left without an answer."""
    [case] = [case for case in cases() if case.id.startswith("145")]
    before = world.received()
    answer = world.send(
        "POST", case.path, headers=list(case.headers.items()), body=case.content(LIMIT_BYTES), hang_up=True
    )
    assert answer.status in {0, 400, 408}
    assert world.received() == before


def test_a_list_of_models_and_a_preflight_are_answered_by_the_gateway(world: World) -> None:
    answers = {case.method: ask(world, case)[0] for case in cases() if case.method != "POST"}
    assert answers["GET"].status == 200
    assert "llama-8b" in {model["id"] for model in answers["GET"].json["data"]}
    assert answers["OPTIONS"].status == 204
    assert answers["OPTIONS"].headers["allow"] == "GET, HEAD, POST, OPTIONS"

"""Refusals as clients see them: the openai client's exceptions, the anthropic client's, and plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.world import DEFAULT, LIMIT_BYTES, ODD, World
from tidegate.domain.refusal import (
    ANTHROPIC_TYPES,
    SHAPES,
    Dialect,
    HttpAnswer,
    Reason,
    Refusal,
    dialect_of,
    http_answer,
)

pytestmark = [pytest.mark.envoy, pytest.mark.redis]
HELLO: list[Any] = [{"role": "user", "content": "hello"}]
MESSAGES = "/v1/messages"
JSON = ("content-type", "application/json")


@pytest.fixture
def client(world: World) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{world.up.gateway}/v1", api_key="none", max_retries=0) as one:
        yield one


@pytest.fixture
def claude(world: World) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=world.up.gateway, api_key="none", max_retries=0) as one:
        yield one


def test_the_openai_client_raises_what_it_raises_for_openai(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nobody", messages=HELLO)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="a\nb", messages=HELLO)
    assert (bad.value.code, bad.value.type) == ("invalid_value", "invalid_request_error")
    with pytest.raises(openai.APIStatusError) as large:
        client.chat.completions.create(model=DEFAULT, messages=[{"role": "user", "content": "x" * LIMIT_BYTES}])
    assert (large.value.status_code, large.value.code) == (413, "request_too_large")
    with pytest.raises(openai.APIStatusError) as encoded:
        client.chat.completions.create(model=DEFAULT, messages=HELLO, extra_headers={"content-encoding": "br"})
    assert (encoded.value.status_code, encoded.value.code) == (415, "unsupported_encoding")
    assert encoded.value.response.headers["accept-encoding"] == "gzip, zstd"


def test_the_anthropic_client_raises_what_it_raises_for_anthropic(claude: anthropic.Anthropic) -> None:
    assert claude.messages.create(model=DEFAULT, max_tokens=3, messages=HELLO).content
    assert claude.messages.create(model="gpt-4o", max_tokens=3, messages=HELLO).model == DEFAULT
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="nobody", max_tokens=3, messages=HELLO)
    assert missing.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError) as bad:
        claude.messages.create(model="a\nb", max_tokens=3, messages=HELLO)
    assert bad.value.body["error"]["type"] == "invalid_request_error"
    content = "x" * (LIMIT_BYTES + (1 << 20))
    with pytest.raises(anthropic.RequestTooLargeError) as large:
        claude.messages.create(model=DEFAULT, max_tokens=3, messages=[{"role": "user", "content": content}])
    assert large.value.body["error"]["type"] == "request_too_large"


ANTHROPIC = {
    "by ext_proc": ({"body": b"{"}, 400, "invalid_request_error", "invalid-json"),
    "by the fault filter": ({"body": b""}, 400, "invalid_request_error", "invalid-json"),
    "by ext_proc, too large": ({"body": b" " * (LIMIT_BYTES + 1)}, 413, "request_too_large", "body-too-large"),
    "by Envoy, too large": ({"body": b" " * (LIMIT_BYTES + (1 << 20))}, 413, "request_too_large", "body-too-large"),
}


@pytest.mark.parametrize(("sent", "status", "kind", "reason"), ANTHROPIC.values(), ids=ANTHROPIC)
@pytest.mark.parametrize("path", [MESSAGES, MESSAGES + "/count_tokens?beta=true", "/anthropic/v1/messages/"])
def test_each_refusal_on_anthropic_s_paths_has_anthropic_s_shape(
    world: World, path: str, sent: dict[str, Any], status: int, kind: str, reason: str
) -> None:
    answer = world.send("POST", path, headers=[JSON], **sent)
    assert (answer.status, answer.reason) == (status, reason)
    assert answer.json["type"] == "error"
    assert set(answer.json["error"]) == {"type", "message"}
    assert answer.json["error"]["type"] == kind
    assert answer.headers["content-type"] == "application/json"


ELSEWHERE = {
    "GET of an endpoint": ("GET", "/v1/chat/completions", 405, "method_not_allowed", "method-not-allowed"),
    "PUT with a body": ("PUT", "/v1/completions/", 405, "method_not_allowed", "method-not-allowed"),
    "DELETE outside /v1": ("DELETE", "/tokenize", 405, "method_not_allowed", "method-not-allowed"),
    "GET of speech": ("GET", "/v1/audio/speech", 405, "method_not_allowed", "method-not-allowed"),
    "a stored response": ("GET", "/v1/responses/resp_1", 404, "not_found", "not-found"),
    "its items": ("GET", "/v1/responses/resp_1/input_items?limit=3", 404, "not_found", "not-found"),
    "its end": ("DELETE", "/v1/responses/resp_1", 404, "not_found", "not-found"),
    "its cancellation": ("POST", "/v1/responses/resp_1/cancel", 404, "not_found", "not-found"),
    "nothing": ("GET", "/v1/files", 404, "not_found", "not-found"),
    "a model nobody has": ("GET", "/v1/models/nobody", 404, "model_not_found", "model-not-found"),
    "a POST of nothing": ("POST", "/v1/files", 400, "invalid_json", "invalid-json"),
}


@pytest.mark.parametrize(("method", "path", "status", "code", "reason"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_no_engine_is_asked_for(world: World, method: str, path: str, status: int, code: str, reason: str) -> None:
    before, body = world.received(), b'{"model": "m"}' if method == "PUT" else b""
    answer = world.send(method, path, body=body)
    assert (answer.status, answer.json["error"]["code"], answer.reason) == (status, code, reason)
    assert answer.headers.get("allow") == ("POST, OPTIONS" if status == 405 else None)
    assert world.received() == before


def test_another_method_on_anthropic_s_paths_has_anthropic_s_shape(world: World) -> None:
    answer = world.send("GET", MESSAGES)
    assert (answer.status, answer.json["error"]["type"]) == (405, "invalid_request_error")


def test_pages_of_the_file_s_origin_may_call_and_read_every_answer(world: World) -> None:
    asked = [("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")]
    preflight = world.send("OPTIONS", "/v1/chat/completions", headers=[("origin", "https://app.test"), *asked])
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, POST, OPTIONS"
    assert preflight.headers["access-control-allow-headers"] == "*, authorization"
    served, refused = world.post({"model": "m", "messages": HELLO}), world.post({"model": "nobody"})
    by_envoy = world.send("GET", "/v1/models")
    for answer in (preflight, served, refused, by_envoy):
        assert answer.headers["access-control-allow-origin"] == "https://app.test"
        assert answer.headers["vary"] == "origin"


def test_models_are_listed_and_found_by_their_names(client: openai.OpenAI, world: World) -> None:
    names = [model.id for model in client.models.list()]
    assert len(names) == len(set(names))
    assert {DEFAULT, ODD, "gpt-4o", "o", "sql-lora", "loaded-later"} <= set(names)
    for name in (DEFAULT, ODD, "gpt-4o", "/srv/models/Yi-34B-GPTQ", "Qwen/Qwen2.5-Coder-32B-Instruct"):
        assert client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody/nowhere")


SLASHED = "Qwen/Qwen2.5-Coder-32B-Instruct"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/v1/models/{SLASHED}", SLASHED),
        (f"/v1/models/{SLASHED.replace('/', '%2F')}?x=1", SLASHED),
        (f"/v1/models/{SLASHED.replace('/', '%2f')}", SLASHED),
        ("/v1/models/org/odd%20name:1+%C3%BC", ODD),
        ("/v1/models/org%2Fodd%20name%3A1%2B%C3%BC", ODD),
        ("/v1/models/org%2fodd%20name%3a1%2b%c3%bc", ODD),
    ],
)
def test_a_name_is_found_however_it_is_escaped(world: World, path: str, name: str) -> None:
    assert world.send("GET", path).json["id"] == name
    head = world.send("HEAD", path)
    assert (head.status, head.body, head.headers["content-type"]) == (200, b"", "application/json")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/", "/models", "//v1/models?limit=2"])
def test_the_list_of_models_is_found(world: World, path: str) -> None:
    assert world.send("GET", path).json["object"] == "list"


PATHS = ["/v1/chat/completions?x=/v1/messages", "/v1/responses", "/v1/threads/7/messages", "/messages2", "/", None]


def test_dialects_go_by_the_path() -> None:
    assert {dialect_of(path) for path in (MESSAGES, "/messages?beta=1", "//v1//messages/count_tokens")} == {
        Dialect.ANTHROPIC
    }
    assert {dialect_of(path) for path in PATHS} == {Dialect.OPENAI}


@contextmanager
def answering(answer: HttpAnswer) -> Iterator[str]:
    """A server that says this and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(answer.status)
            for name, value in (*answer.headers, ("content-length", str(len(answer.body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


EXCEPTIONS = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError", 503: "InternalServerError"}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_the_contract_is_the_exception_of_its_status(reason: Reason) -> None:
    shape, wait = SHAPES[reason], 7 if SHAPES[reason].status == 429 else None
    refusal = Refusal(reason, "Not this time.", param="model", retry_after_seconds=wait)
    with answering(http_answer(refusal)) as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        with client, pytest.raises(getattr(openai, EXCEPTIONS.get(shape.status, "APIStatusError"))) as refused:
            client.chat.completions.create(model="m", messages=HELLO)
    assert (refused.value.status_code, refused.value.code, refused.value.type) == (shape.status, shape.code, shape.type)
    assert refused.value.response.headers["x-tidegate-reason"] == reason
    assert refused.value.response.headers.get("retry-after") == (None if wait is None else "7")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_read_by_the_anthropic_client(reason: Reason) -> None:
    with answering(http_answer(Refusal(reason, "Not this time."), Dialect.ANTHROPIC)) as url:
        client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        with client, pytest.raises(anthropic.APIStatusError) as refused:
            client.messages.create(model="m", max_tokens=1, messages=HELLO)
    assert refused.value.status_code == SHAPES[reason].status
    assert refused.value.body["error"]["message"] == "Not this time."


PAGE = (Path(__file__).parents[2] / "docs" / "requests.md").read_text()


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_is_documented_as_it_is_answered(reason: Reason) -> None:
    shape = SHAPES[reason]
    [row] = [line for line in PAGE.splitlines() if line.startswith("| ") and f"`{reason}`" in line.split(" | ")[0]]
    for word in (str(shape.status), f"`{shape.code}`", f"`{ANTHROPIC_TYPES[shape.status]}`"):
        assert word in row

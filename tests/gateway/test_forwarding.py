"""What a client sends is what the engine receives, however it came over the wire; a rewritten name is all that changes."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import pytest
from backports import zstd

from tests.conftest import wait_until
from tests.gateway.wire import Answer, send_h2
from tests.gateway.world import ADAPTER, DEFAULT, LIMIT_BYTES, LONG, ODD, World

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

PATH = "/v1/chat/completions"
JSON = ("content-type", "application/json")
MEBIBYTE = 1 << 20
OWN = [
    JSON,
    ("authorization", "Bearer k"),
    ("x-own", "é, 1"),
    ("accept", "*/*"),
    ("user-agent", "t/1"),
    ("x-empty", ""),
]
ADDED = {"host", "content-length", "x-forwarded-for", "x-forwarded-proto", "x-request-id"}
"""What Envoy adds, or sets anew."""
STEERING = [
    ("x-gateway-destination-endpoint", "10.9.9.9:1"),
    ("X-Gateway-Destination-Endpoint-Subset", "10.9.9.9:1"),
    ("x-tidegate-cluster", "odd"),
    ("X-Tidegate-Anything", "1"),
    ("x-envoy-upstream-rq-timeout-ms", "1"),
]


def chat(size: int, model: str = "m", **more: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "y" * size}], **more}).encode()


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def names(received: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in received["headers"]}


WAYS: dict[str, dict[str, Any]] = {
    "content-length": {},
    "one chunk": {"chunks": []},
    "1-byte chunks": {"chunks": [1] * 3000},
    "odd chunks": {"chunks": [3, 1, 7, 40, 2, 500]},
    "trailers": {"chunks": [100], "trailers": [("x-sum", "1"), ("x-gateway-destination-endpoint", "10.9.9.9:1")]},
    "expect": {"headers": [*OWN, ("expect", "100-continue")]},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_bytes_and_headers_arrive_as_they_were_sent(world: World, way: dict[str, Any]) -> None:
    body = chat(2500)
    answer = world.post(body, PATH + "?a=1&b=%20", **{"headers": OWN, **way})
    received = world.received()
    assert answer.status == 200, answer.body
    assert (received["path"], received["sha256"]) == (PATH + "?a=1&b=%20", sha(body))
    arrived = names(received)
    assert {name: arrived.get(name) for name, _ in OWN} == dict(OWN)
    assert arrived["content-length"] == str(len(body))
    assert set(arrived) - {name for name, _ in OWN} <= ADDED


@pytest.mark.parametrize(
    ("sizes", "trailers"),
    [([], []), ([1] * 300, []), ([7, 1000], [("x-sum", "1"), ("x-tidegate-cluster", "odd")])],
    ids=["whole", "1-byte frames", "trailers"],
)
def test_http_2_arrives_alike(world: World, sizes: list[int], trailers: list[tuple[str, str]]) -> None:
    body = chat(2500)
    answer = send_h2(world.port, PATH, headers=OWN, body=body, sizes=sizes, trailers=trailers)
    received = world.received()
    assert (answer.status, received["sha256"]) == (200, sha(body))
    arrived = names(received)
    assert {name: arrived.get(name) for name, _ in OWN} == dict(OWN)
    assert set(arrived) - {name for name, _ in OWN} <= ADDED


def by_http_2(world: World, body: bytes) -> Answer:
    return send_h2(world.port, PATH, headers=[JSON], body=body, sizes=[MEBIBYTE] * 40)


SENDERS = {
    "content-length": lambda world, body: world.post(body),
    "chunked": lambda world, body: world.post(body, chunks=[MEBIBYTE] * 40),
    "h2c": by_http_2,
}


@pytest.mark.parametrize("sent", SENDERS.values(), ids=SENDERS)
def test_the_limit_passes_and_one_byte_more_is_413_by_the_contract(world: World, sent: Any) -> None:
    body = chat(LIMIT_BYTES - len(chat(0)))
    assert len(body) == LIMIT_BYTES
    assert "x-sim-engine" in sent(world, body).headers
    assert world.received()["sha256"] == sha(body)
    for larger in (body + b" ", body + b" " * MEBIBYTE):
        refused = sent(world, larger)
        assert (refused.status, refused.reason) == (413, "body-too-large")
        assert refused.json["error"]["code"] == "request_too_large"
        assert refused.headers["content-type"] == "application/json"


REWRITES = {
    "alias": ("gpt-4o", DEFAULT),
    "alias of an alias": ("o", DEFAULT),
    "a longer name for a shorter": ("a long name for a short one " + "x" * 200, "m"),
}


@pytest.mark.parametrize(("sent", "meant"), REWRITES.values(), ids=REWRITES)
@pytest.mark.parametrize("size", [10, 2 * MEBIBYTE], ids=["small", "2 MiB"])
@pytest.mark.parametrize("way", [{}, {"chunks": [5, 1, 1, 900]}], ids=["content-length", "chunked"])
def test_an_alias_changes_the_name_and_the_length_and_nothing_else(
    world: World, sent: str, meant: str, size: int, way: dict[str, Any]
) -> None:
    body = b'{ "x":[{"model": "gpt-4o"}],"messages":[{"role":"user","content":"' + b"z" * size
    body += b'"}],\n "model" :\t' + json.dumps(sent).encode() + b'  , "max_tokens": 1}\n'
    head, _, tail = body.rpartition(json.dumps(sent).encode())
    if meant == DEFAULT and size > MEBIBYTE:
        meant = LONG  # by the rule for long prompts
    expected = head + json.dumps(meant).encode() + tail
    answer = world.post(body, **way)
    received = world.received()
    assert "x-sim-engine" in answer.headers, answer.body
    assert (received["sha256"], names(received)["content-length"]) == (sha(expected), str(len(expected)))
    assert world.read()["written_model"] == meant


def test_an_alias_by_http_2(world: World) -> None:
    answer = send_h2(world.port, PATH, headers=[JSON], body=chat(10, "gpt-4o"), sizes=[9] * 9)
    assert (answer.status, world.received()["sha256"]) == (200, sha(chat(10, DEFAULT)))


ENCODINGS = {"gzip": (gzip.compress, gzip.decompress), "zstd": (zstd.compress, zstd.decompress)}


@pytest.mark.parametrize(("encoding", "codec"), ENCODINGS.items(), ids=ENCODINGS)
def test_an_encoded_body_passes_as_it_came_and_is_encoded_anew_for_an_alias(
    world: World, encoding: str, codec: Any
) -> None:
    headers = [JSON, ("content-encoding", encoding)]
    body = codec[0](chat(3000))
    world.post(body, headers=headers)
    assert world.received()["sha256"] == sha(body)
    assert names(world.received())["content-encoding"] == encoding
    world.post(codec[0](chat(3000, "gpt-4o")), headers=headers)
    received = world.received()
    assert world.read()["written_model"] == DEFAULT
    assert received["sha256"] == sha(again(encoding, chat(3000, DEFAULT)))
    assert names(received)["content-encoding"] == encoding


def again(encoding: str, plain: bytes) -> bytes:
    """As the gateway encodes."""
    return gzip.compress(plain, 1, mtime=0) if encoding == "gzip" else zstd.compress(plain)


def form(model: str) -> bytes:
    parts = f'--B7\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n'
    parts += '--B7\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nmodel=gpt-4o\r\n--B7--\r\n'
    return parts.encode()


def test_an_alias_in_a_form_changes_its_field(world: World) -> None:
    headers = [("content-type", "multipart/form-data; boundary=B7")]
    world.post(form("gpt-4o"), "/v1/images/edits", headers=headers)
    assert world.received()["sha256"] == sha(form(DEFAULT))


@pytest.mark.parametrize(
    ("body", "headers", "path", "cluster", "written"),
    [
        (chat(400_000, DEFAULT), [], PATH, "long", LONG),
        (chat(100, DEFAULT), [], PATH, "main", None),
        (chat(100, DEFAULT, max_tokens=30_000), [], PATH, "long", None),
        (chat(100, DEFAULT, max_tokens=90_001), [], PATH, "main", None),
        (chat(100, "o", max_tokens=30_000), [], PATH, "long", DEFAULT),
        (chat(100, DEFAULT), [("X-TIER", "free")], PATH, "free", None),
        (chat(100, DEFAULT), [("x-tier", "free"), ("x-tier", "free")], PATH, "main", None),
        (chat(100, DEFAULT), [("x-tier", "Free")], PATH, "main", None),
        (chat(100, ODD), [], PATH, "odd", None),
        (chat(100, ADAPTER), [], PATH, "main", None),
        (b'{"messages": []}', [], PATH, "main", None),
        (json.dumps({"messages": [{"content": "y" * 400_000}]}).encode(), [], PATH, "long", LONG),
    ],
    ids=[
        *("long prompt", "short prompt", "long output", "beyond the range", "by the alias' model", "header"),
        *("header twice", "another value", "slash and space", "adapter", "no model", "long without a model"),
    ],
)
def test_rules_and_names_choose_the_cluster(
    world: World, body: bytes, headers: list[tuple[str, str]], path: str, cluster: str, written: str | None
) -> None:
    answer = world.post(body, path, headers=[JSON, *headers])
    last = world.read()
    assert (last["cluster"], last["written_model"]) == (cluster, written)
    assert answer.headers["x-tidegate-cluster"] == cluster


def test_a_rule_writes_a_name_into_a_body_that_has_none(world: World) -> None:
    body = json.dumps({"messages": [{"content": "y" * 400_000}], "model": None}).encode()
    world.post(body)
    assert world.received()["sha256"] == sha(body[:-1] + f',"model":"{LONG}"}}'.encode())


def test_a_media_rule_takes_a_form_without_a_model(world: World) -> None:
    parts = b'--B7\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--B7--\r\n'
    headers = [("content-type", "multipart/form-data; boundary=B7")]
    answer = world.post(parts, "/v1/audio/transcriptions", headers=headers)
    assert answer.headers["x-tidegate-cluster"] == "ears"


def test_nothing_with_which_a_client_could_steer_reaches_an_engine(world: World) -> None:
    answer = world.post(chat(10), headers=[JSON, *STEERING])
    assert (answer.status, answer.headers["x-tidegate-cluster"]) == (200, "main")
    arrived = names(world.received())
    assert not [name for name, _ in STEERING if name.lower() in arrived]
    assert not [name for name in arrived if name.startswith(("x-tidegate", "x-gateway", "x-envoy-upstream"))]


@pytest.mark.parametrize(
    "model", ["a\r\nx-tidegate-cluster: odd", "a\u0000b", "a\u2028b", "a\u202eb", "\x7f"], ids=ascii
)
def test_a_name_with_control_characters_is_refused_and_shown_to_nobody(world: World, model: str) -> None:
    answer = world.post({"model": model, "messages": []})
    assert (answer.status, answer.reason) == (400, "invalid-request")
    assert model not in answer.body.decode()
    assert "x-tidegate-cluster" not in answer.headers


def test_engines_counters_come_back_beside_our_estimate(world: World) -> None:
    """The simulated engines' tokens have 4 bytes, as the first guess: what was sent is what they count.

    After 16 prompts the ratio is learned, from whole tokens.
    """
    names = ("tidegate_ext_proc_estimated_prompt_tokens_total", "tidegate_ext_proc_counted_prompt_tokens_total")
    before = [world.metric(name, cluster="odd") for name in names]
    for _ in range(20):
        assert world.post(chat(4000, ODD, max_tokens=1)).status == 200

    def counted() -> bool:
        return world.metric(names[1], cluster="odd") - before[1] >= 20_000

    wait_until(counted, what="the engine's counters reach ext_proc")
    assert world.metric(names[0], cluster="odd") - before[0] == pytest.approx(20_000, rel=0.03)
    assert 1 <= world.metric("tidegate_ext_proc_characters_per_token", cluster="odd") <= 8

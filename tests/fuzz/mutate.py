"""Mutations of requests: bytes are cut, doubled, spliced and replaced; headers and paths are swapped."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from backports import zstd

from tests.cases.bodies import cases

LARGEST_SEED = 1 << 16
LARGEST = 3 << 20
PATHS = [case.path for case in cases()] + ["", "/", "/v1/audio/translations", "/openai/deployments/m/completions"]
TYPES = [
    "application/json",
    None,
    "multipart/form-data; boundary=B7",
    'multipart/form-data; boundary="-"',
    "multipart/form-data",
]
ENCODINGS = [None, None, None, "gzip", "zstd", "br", "identity"]
TOKENS = [
    *(b'"model":"m",', b'"\\u006dodel":', b'"messages":[', b'"prompt":', b'"content":', b'"input":', b'"tools":'),
    *(b'"extra_body":{', b'"sampling_params":{', b'"lora":[', b'"metadata":{"user_id":', b'"uuid":"u",', b'"text":'),
    *(b'"max_tokens":', b'"n":', b'"size":"', b'"type":"image_url",', b'"system":', b'"override_settings":{'),
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u", b"\\ud83c", b"null", b"true", b"NaN", b"-1", b"0"),
    *(b"1e400", b"1.5", b"9" * 20, b"9" * 5000, b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0", "潮".encode()),
    *(b"\r\n", b"\n--B7\r\n", b"--B7--", b'Content-Disposition: form-data; name="model"\r\n\r\n', b'; filename="'),
    *(b"1e300,", b"1.797e308,", b"1e23,", b"12345678901234567e9", b'"ab",', b'["', b'"[', b"\\" * 200 + b"\\ud800"),
    *(b'"inputs":', b'"thinking":', b'"reasoning_content":', b'"prompt_token_ids":[', b'"parameters":{', b'"source":{'),
    *(b"[" * 2000, b'{"a":' * 500, b"x-billing-header:", b"<lora:a:1>", b"/*", b"'"),
]


@dataclass(frozen=True)
class Request:
    """What `parse_request` takes."""

    body: bytes
    path: str
    content_type: str | None
    content_encoding: str | None


def seeds() -> list[Request]:
    """The small requests of the table of bodies."""
    found = []
    for case in cases():
        if case.fill is None or case.fill["times"] in range(LARGEST_SEED // 64):
            body = case.content(0)
            found.append(Request(body, case.path, case.header("content-type"), case.header("content-encoding")))
    return [seed for seed in found if len(seed.body) <= LARGEST_SEED]


def mutated(choose: random.Random, pool: Sequence[Request]) -> Request:
    """A request of `pool`, changed in one to four places."""
    request = choose.choice(pool)
    body = request.body
    for _ in range(choose.choice((1, 1, 2, 3, 4))):
        body = choose.choice(_MUTATIONS)(choose, body, pool)
    request = replace(request, body=body[:LARGEST])
    dice = choose.random()
    if dice < 0.1:
        request = replace(request, path=choose.choice(PATHS))
    elif dice < 0.15:
        request = replace(request, content_type=choose.choice(TYPES))
    elif dice < 0.2:
        request = _encoded(choose, request)
    return request


def _encoded(choose: random.Random, request: Request) -> Request:
    encoding = choose.choice(ENCODINGS)
    body = request.body
    if choose.random() < 0.7:
        body = gzip.compress(body, 1) if encoding == "gzip" else zstd.compress(body) if encoding == "zstd" else body
    if choose.random() < 0.3:
        body = _flip(choose, body, ())
    return replace(request, body=body, content_encoding=encoding)


def _cut(choose: random.Random, body: bytes) -> tuple[int, int]:
    start = choose.randint(0, len(body))
    return start, min(len(body), start + choose.choice((1, 1, 2, 4, 8, 32, 256)))


def _flip(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    start, _ = _cut(choose, body)
    return body[:start] + bytes([choose.randrange(256)]) + body[start + 1 :]


def _delete(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    start, end = _cut(choose, body)
    return body[:start] + body[end:]


def _truncate(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    return body[: choose.randint(0, len(body))]


def _insert(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    start, _ = _cut(choose, body)
    return body[:start] + choose.choice(TOKENS) + body[start:]


def _overwrite(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    start, end = _cut(choose, body)
    return body[:start] + choose.choice(TOKENS) + body[end:]


def _repeat(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    start, end = _cut(choose, body)
    times = choose.choice((2, 2, 3, 10, 100))
    return body[:start] + body[start:end] * times + body[end:]


def _repeat_much(choose: random.Random, body: bytes, pool: Sequence[Request]) -> bytes:
    """One request in a few thousand grows to a megabyte or three: every cost has to stay in proportion."""
    if choose.random() > 0.01:
        return _repeat(choose, body, pool)
    start, end = _cut(choose, body)
    piece = choose.choice((body[start:end], choose.choice(TOKENS))) or b" "
    return body[:start] + piece * (choose.choice((1 << 18, 1 << 20, LARGEST)) // len(piece)) + body[end:]


def _splice(choose: random.Random, body: bytes, pool: Sequence[Request]) -> bytes:
    other = choose.choice(pool).body
    return body[: choose.randint(0, len(body))] + other[choose.randint(0, len(other)) :]


def _retype(choose: random.Random, body: bytes, _: Sequence[Request]) -> bytes:
    """Put another value into a field of a JSON object."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(document, dict) or not document or len(body) > LARGEST_SEED:
        return body
    key, other = choose.choice(list(document)), choose.choice(list(document))
    value = choose.choice((None, True, 0, -1, 2.5, 10**25, "", "7", [], {}, [[]], [1, "a", None], {"a": [1]}))
    document[key] = choose.choice((value, [document[other]], {"text": document[other]}, document[other]))
    return json.dumps(document).encode()


_Mutation = Callable[[random.Random, bytes, Sequence[Request]], bytes]
_MUTATIONS: list[_Mutation] = [
    *(_flip, _delete, _truncate, _insert, _insert, _overwrite, _overwrite, _repeat, _repeat_much, _splice),
    *(_retype, _retype, _retype, _retype),
]

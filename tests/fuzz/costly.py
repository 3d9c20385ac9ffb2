"""Bodies that cost far more than others of their size, unless the parser takes care; each of about `size` bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.mutate import Request

_CHAT = "/v1/chat/completions"
_PLACES = {
    "messages": (_CHAT, b'{"model":"m","messages":[', b"]}"),
    "content": (_CHAT, b'{"model":"m","messages":[{"role":"user","content":[', b"]}]}"),
    "beside": (_CHAT, b'{"model":"m","messages":[],"prompt":[', b"]}"),
    "prompt": ("/v1/completions", b'{"model":"m","prompt":[', b"]}"),
    "ids": ("/v1/completions", b'{"model":"m","prompt":[[1,', b"]]}"),
    "input": ("/v1/responses", b'{"model":"m","input":[', b"]}"),
    "documents": ("/v1/rerank", b'{"model":"m","query":"q","documents":[', b"]}"),
    "input_embeds": ("/generate", b'{"model":"m","input_embeds":[[', b"]]}"),
    "tools": (_CHAT, b'{"model":"m","messages":[],"tools":[', b"]}"),
    "images": (_CHAT, b'{"model":"m","messages":[],"images":[', b"]}"),
    "model": (_CHAT, b'{"messages":[],"model":[', b"]}"),
    "metadata": (_CHAT, b'{"model":"m","messages":[],"metadata":[', b"]}"),
}
_ELEMENTS = [
    *(b"1e300", b"1e308", b"1.797e308", b"1e23", b"-1e-300", b"12345678901234567e7", b"1.2345678901234567890e17"),
    *(b"1", b"0.5", b"9" * 20, b"9" * 4000, b"{}", b"[]", b'""', b'"ab"', b"null", b'{"text":1e300}', b"[1e300]"),
    *(b'{"text":"a"}', b'{"content":[1e300]}', b'{"role":"user","content":"x"}', b'{"type":"image_url"}', b"[[1]]"),
    *(b'{"type":"document","source":{"type":"text","data":"a"}}', b'{"role":"assistant","tool_calls":[],"content":0}'),
]


def costly(size: int) -> Iterator[Request]:
    """Every element in every place, and the bodies of one long string."""
    for path, begin, end in _PLACES.values():
        for element in _ELEMENTS:
            for times in (size // (len(element) + 1), 19_000, 39_000, 119_000):
                if times * (len(element) + 1) <= size:
                    yield _request(path, begin + b",".join([element] * times) + end)
    for text in _texts(size):
        for place in ("content", "metadata"):
            path, begin, end = _PLACES[place]
            yield _request(path, begin + text + end)


def _texts(size: int) -> Iterator[bytes]:
    yield b'"' + b"\\\\" * (size // 2) + b'\\ud800"'
    yield b'"' + (b"\\" * 200 + b"\\ud800") * (size // 206) + b'"'
    yield b'"' + b"\\ud800" * 29_000 + b'"'
    for piece in (b'["', b'"[', b'"[",', b'"{', b'"",', b'["",', b'","', b'"\\"[",', b'[["",', b'{"":', b'"\\\\",'):
        yield piece * (size // len(piece))


def _request(path: str, body: bytes) -> Request:
    return Request(body, path, "application/json", None)

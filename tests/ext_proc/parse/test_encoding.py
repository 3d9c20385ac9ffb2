"""Compressed bodies: read under the limit, or refused without being unpacked."""

from __future__ import annotations

import gzip
import zlib

import pytest
from backports import zstd

from tests.ext_proc.parse.reading import chat, read, refusal
from tidegate.domain.refusal import Refusal, http_answer

PLAIN = b'{"model":"m","messages":[{"role":"user","content":"slack water"}]}'
HALF = len(PLAIN) // 2


def streamed_zstd(data: bytes) -> bytes:
    compressor = zstd.ZstdCompressor()
    return compressor.compress(data) + compressor.flush()


SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (None, PLAIN),
        ("", PLAIN),
        ("identity", PLAIN),
        (" Identity , ", PLAIN),
        ("gzip", gzip.compress(PLAIN)),
        ("X-GZIP", gzip.compress(PLAIN)),
        ("identity, gzip", gzip.compress(PLAIN)),
        ("gzip", gzip.compress(PLAIN[:HALF]) + gzip.compress(PLAIN[HALF:])),
        ("gzip", gzip.compress(PLAIN) + b"\0" * 512),
        ("gzip", gzip.compress(b"") + gzip.compress(PLAIN)),
        ("zstd", zstd.compress(PLAIN)),
        ("zstd", streamed_zstd(PLAIN)),
        ("zstd", zstd.compress(PLAIN[:HALF]) + streamed_zstd(PLAIN[HALF:])),
        ("ZSTD", SKIPPABLE + zstd.compress(PLAIN)),
        ("zstd", zstd.compress(PLAIN) + SKIPPABLE),
    ],
    ids=range(15),
)
def test_encoded_body_is_read(encoding: str | None, body: bytes) -> None:
    assert read(body, content_encoding=encoding).prompt_chars == len("slack water")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", PLAIN),
        ("gzip", gzip.compress(PLAIN)[:-1]),
        ("gzip", gzip.compress(PLAIN)[:-8] + b"\0" * 8),
        ("gzip", gzip.compress(PLAIN) + b"tail"),
        ("gzip", zlib.compress(PLAIN)),
        ("gzip", b"\x1f\x8b"),
        ("gzip", gzip.compress(b"") * 1000),
        ("zstd", PLAIN),
        ("zstd", zstd.compress(PLAIN)[:-1]),
        ("zstd", zstd.compress(PLAIN) + b"tail"),
        ("zstd", gzip.compress(PLAIN)),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("zstd", zstd.compress(b"") * 1000),
    ],
    ids=range(13),
)
def test_body_that_is_not_what_it_says_is_refused(encoding: str, body: bytes) -> None:
    assert refusal(body, content_encoding=encoding) == (400, "invalid-request")


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_nothing_is_nothing_in_any_encoding(encoding: str) -> None:
    assert refusal(b"", content_encoding=encoding) == (400, "invalid-json")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "gzip, zstd", "zstd,br", "*", "\u017fzstd"])
def test_other_encodings_are_refused_with_what_works(encoding: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(PLAIN, content_encoding=encoding)
    answer = http_answer(refused.value)
    assert (answer.status, dict(answer.headers)["accept-encoding"]) == (415, "gzip, zstd")


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_limit_holds_for_what_is_decoded(encoding: str, compress: object) -> None:
    assert callable(compress)
    filled = PLAIN + b" " * (10_000 - len(PLAIN))
    assert read(compress(filled), content_encoding=encoding, limit=10_000).model == "m"
    assert refusal(compress(filled + b" "), content_encoding=encoding, limit=10_000) == (413, "body-too-large")
    halves = compress(filled) + compress(b" ")
    assert refusal(halves, content_encoding=encoding, limit=10_000) == (413, "body-too-large")


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_bomb_is_not_unpacked(encoding: str, compress: object) -> None:
    import tracemalloc

    assert callable(compress)
    bomb = compress(b"0" * (64 << 20))
    tracemalloc.start()
    try:
        assert refusal(bomb, content_encoding=encoding, limit=1 << 20) == (413, "body-too-large")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_window_larger_than_the_limit_is_refused() -> None:
    options = {zstd.CompressionParameter.window_log: 30, zstd.CompressionParameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=options)
    body = compressor.compress(PLAIN) + compressor.flush()
    assert refusal(body, content_encoding="zstd") == (400, "invalid-request")


def test_encoding_does_not_change_what_is_read() -> None:
    assert read(gzip.compress(PLAIN), content_encoding="gzip") == read(PLAIN)
    assert chat() != read(PLAIN)

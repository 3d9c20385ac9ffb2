"""What reading a body costs against msgspec alone: `python -m bench.parse_cost`.

`ratio` is `parse_request`, every field and count included, to `msgspec.json.decode` into a struct of the same fields
with the types that the API documents; `prefix_us` is what the fingerprint of the prompt adds. Times are the least of
many, taken in turns, so that a busy machine does not count. `hash_us_per_kib` is the fingerprint of a prompt of one
message alone: seed, marks and their places, without the reading.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import msgspec

from ext_proc.parse.fingerprint import Chain
from ext_proc.parse.request import parse_request

SIZES: Final = {"2 KiB": 2 << 10, "32 KiB": 32 << 10, "220 KiB": 220 << 10, "2 MiB": 2 << 20, "10 MiB": 10 << 20}
HASHED: Final = {"4 KiB": 4 << 10, "32 KiB": 32 << 10, "1 MiB": 1 << 20}
TARGET_RATIO: Final = 1.5
TARGET_HASH_US_PER_KIB: Final = 1.0
WORDS: Final = ("tide", "gate", "river", "delta", "ebb", "flood", "lock", "weir", "harbour", "sluice", "quay")
LIMIT_BYTES: Final = 32 << 20
BUDGET_SECONDS: Final = 0.5


class Message(msgspec.Struct):
    """A message whose content is text."""

    role: str
    content: str


class Request(msgspec.Struct):
    """The fields that the body of this bench has, as the API types them."""

    model: str
    messages: list[Message]
    stream: bool
    max_tokens: int
    user: str


def chat(size: int, seed: int = 1) -> bytes:
    """A chat of about `size` bytes: a conversation of eight turns that grow with it, with line breaks and quotes."""
    words = random.Random(seed)
    texts = [_text(words, size // 8) for _ in range(8)]
    turns = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    fields = {"model": "phi-3", "messages": turns, "stream": True, "max_tokens": 256, "user": "bench"}
    return msgspec.json.encode(fields)


def _text(words: random.Random, size: int) -> str:
    sentences: list[str] = []
    left = size
    while left > 0:
        sentence = " ".join(words.choices(WORDS, k=60)) + ('." \n' if words.random() < 0.5 else ". ")
        sentences.append(sentence)
        left -= len(sentence)
    return "".join(sentences)[:size]


def measure() -> list[dict[str, Any]]:
    """Rows of {name, body_bytes, parse_us, decode_us, prefix_us, ratio}, one a size."""
    return [_row(name, chat(size)) for name, size in SIZES.items()]


def figures() -> list[dict[str, Any]]:
    """The rows as `make bench` shows them: times, and how many bare decodes a parse costs."""
    shown = []
    for row in measure():
        shown.append({"name": row["name"], "value": row["parse_us"], "unit": "µs", "target": None})
        prefix = {"name": f"{row['name']}, fingerprint", "value": row["prefix_us"], "unit": "µs", "target": None}
        ratio = {"name": f"{row['name']}, bare decodes", "value": row["ratio"], "unit": "×", "target": TARGET_RATIO}
        shown += [prefix, ratio]
    return shown + [
        {"name": row["name"], "value": row["hash_us_per_kib"], "unit": "µs/KiB", "target": TARGET_HASH_US_PER_KIB}
        for row in measure_hashing()
    ]


def measure_hashing() -> list[dict[str, Any]]:
    """Rows of {name, hash_us_per_kib}, one a size of prompt."""
    rows = []
    for name, size in HASHED.items():
        text = _text(random.Random(1), size)
        [microseconds] = _least(lambda text=text: _fingerprint(text))
        rows.append({"name": f"parse_cost: {name} prompt, hashing", "hash_us_per_kib": microseconds / (size / 1024)})
    return rows


def _fingerprint(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    chain = Chain("phi-3", None)
    chain.end()
    chain.message("user", text)
    return tuple(chain.marks), tuple(chain.ends)


def _row(name: str, body: bytes) -> dict[str, Any]:
    decode = msgspec.json.Decoder(Request).decode
    whole_us, parse_us, decode_us = _least(
        lambda: _parse(body, "/v1/chat/completions"),
        lambda: _parse(body, "/v1/messages/count_tokens"),  # the same walk, and no fingerprint
        lambda: decode(body),
    )
    return {
        "name": f"parse_cost: {name}",
        "body_bytes": len(body),
        "parse_us": parse_us,
        "decode_us": decode_us,
        "prefix_us": whole_us - parse_us,
        "ratio": parse_us / decode_us,
    }


def _parse(body: bytes, path: str = "/v1/chat/completions") -> object:
    return parse_request(body, path=path, content_type="application/json", content_encoding=None, max_bytes=LIMIT_BYTES)


def _least(*calls: Callable[[], object]) -> list[float]:
    """The least time of each call in µs; the calls take turns."""
    least = [float("inf")] * len(calls)
    spent = 0.0
    while spent < BUDGET_SECONDS * 1e9 * len(calls):
        for at, call in enumerate(calls):
            started = perf_counter_ns()
            call()
            took = perf_counter_ns() - started
            least[at] = min(least[at], took)
            spent += took
    return [nanoseconds / 1e3 for nanoseconds in least]


def main() -> None:
    """Print the rows."""
    columns = ("body_bytes", "decode_us", "parse_us", "prefix_us", "ratio")
    print(f"{'body':>10}", *(f"{column:>11}" for column in columns))
    for row in measure():
        figures = (f"{row[column]:>11.2f}" if column == "ratio" else f"{row[column]:>11.0f}" for column in columns)
        print(f"{row['name'].removeprefix('parse_cost: '):>10}", *figures)
    for row in measure_hashing():
        print(f"{row['name'].removeprefix('parse_cost: ')}: {row['hash_us_per_kib']:.2f} µs/KiB")


if __name__ == "__main__":
    main()

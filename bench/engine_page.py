"""A metrics page of 120 KB as an engine with many series writes it, and servers that send it for next to nothing."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tidegate.runtime import run

PAGE_BYTES: Final = 120_000
PAGES: Final = 40
MODEL: Final = "microsoft/Phi-3-mini-4k-instruct"
GAUGES: Final = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "engine_sleep_state")
COUNTERS: Final = (
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "num_preemptions",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
)
HISTOGRAMS: Final = (
    "e2e_request_latency_seconds",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "request_time_per_output_token_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "iteration_tokens_total",
)
BOUNDS: Final = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
WAITING: Final = b'vllm:num_requests_waiting{engine="0",model_name="' + MODEL.encode() + b'"} '


class Families:
    """vLLM's families for so many engine processes of one replica that the page is at least `size` bytes long."""

    def __init__(self, size: int = PAGE_BYTES) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["engine", "model_name"]
        self._gauges = [Gauge(f"vllm:{name}", f"Gauge {name}.", labels, registry=registry) for name in GAUGES]
        self._counters = [Counter(f"vllm:{name}", f"Counter {name}.", labels, registry=registry) for name in COUNTERS]
        self._histograms = [
            Histogram(f"vllm:{name}", f"Histogram {name}.", labels, buckets=BOUNDS, registry=registry)
            for name in HISTOGRAMS
        ]
        self._engines = 0
        while len(self.page()) < size:
            self._engines += 1
            self.work()

    def page(self) -> bytes:
        """What /metrics shows."""
        return generate_latest(self.registry)

    def work(self) -> None:
        """Every engine answers some requests: each counter and each histogram moves."""
        for engine in range(self._engines):
            series = (str(engine), MODEL)
            for gauge in self._gauges:
                gauge.labels(*series).set(0)
            for counter in self._counters:
                counter.labels(*series).inc(1000 + engine)
            for histogram in self._histograms:
                for value in BOUNDS:
                    histogram.labels(*series).observe(value * 0.9)


def render_seconds(times: int = 20) -> float:
    """What a Python engine spends on writing the page once: the least of so many times."""
    spent, families = [], Families()
    for _ in range(times):
        began = time.perf_counter()
        families.page()
        spent.append(time.perf_counter() - began)
    return min(spent)


class _Engine:
    """One engine: each page shows more than the one before, and after the last the engine seems restarted."""

    def __init__(self, pages: Sequence[bytes]) -> None:
        self._pages, self._next, self.waiting = [_split(page) for page in pages], 0, 0

    def answer(self) -> bytes:
        before, after = self._pages[self._next]
        self._next = (self._next + 1) % len(self._pages)
        body = b"%b%b%d.0%b" % (before, WAITING, self.waiting, after)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=1.0.0\r\nContent-Length: %d\r\n\r\n" % len(body)
        return head + body


def _split(page: bytes) -> tuple[bytes, bytes]:
    """The page before and after the number of requests that wait."""
    before, _, rest = page.partition(WAITING)
    return before, rest[rest.index(b"\n") :]


class _Connection(asyncio.Protocol):
    """Answers each request head: /metrics with the page, everything else with an empty 200 or 404."""

    def __init__(self, engine: _Engine) -> None:
        self._engine, self._open = engine, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # of uvloop, which derives from no class of asyncio

    def data_received(self, data: bytes) -> None:
        *heads, self._open = (self._open + data).split(b"\r\n\r\n")
        for head in heads:
            self._transport.write(self._answer(head.split(b" ", 2)[1]))

    def _answer(self, path: bytes) -> bytes:
        if path == b"/metrics":
            return self._engine.answer()
        status = b"200 OK" if path == b"/health" else b"404 Not Found"
        return b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status


async def serve(count: int) -> None:
    """Serve so many engines: prints their ports; a line `ENGINE WAITING` on stdin is answered with when it holds.

    The time is `time.monotonic_ns()`, which all processes of a machine share.
    """
    loop = asyncio.get_running_loop()
    families, pages = Families(), []
    for _ in range(PAGES):
        pages.append(families.page())
        families.work()
    engines = [_Engine(pages) for _ in range(count)]
    servers = [await loop.create_server(lambda e=e: _Connection(e), "127.0.0.1", 0) for e in engines]  # type: ignore[misc]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    told = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        engine, waiting = map(int, line.split())
        engines[engine].waiting = waiting
        print(time.monotonic_ns(), flush=True)


if __name__ == "__main__":
    run(lambda: serve(int(sys.argv[1])))

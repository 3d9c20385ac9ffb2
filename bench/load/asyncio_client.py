"""A load generator for machines without wrk: HTTP/1.1 keep-alive on asyncio streams, for bodies with a length."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.load import Load, files_of


class AsyncioClient:
    """Costs a core at some thousands of requests a second, which holds the servers' rates down."""

    name = "asyncio"
    remark = "wrk is missing (apt-get install wrk): load by a slower asyncio client, which may be the bottleneck"

    def run(self, url: str, body: Path, connections: int, seconds: float) -> Load:
        return asyncio.run(_run(url, [one.read_bytes() for one in files_of(body)], connections, seconds))


async def _run(url: str, bodies: Sequence[bytes], connections: int, seconds: float) -> Load:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    head = f"POST {parts.path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
    requests = itertools.cycle([f"{head}content-length: {len(one)}\r\n\r\n".encode() + one for one in bodies])
    began = time.perf_counter()
    work = [_connection(host, port, requests, began + seconds) for _ in range(connections)]
    parts_of_it = await asyncio.gather(*work)
    took = time.perf_counter() - began
    times = sorted(t for latencies, _ in parts_of_it for t in latencies)
    return Load(
        requests=len(times),
        seconds=took,
        p50_ms=quantile(times, 0.50) * 1e3,
        p99_ms=quantile(times, 0.99) * 1e3,
        errors=sum(errors for _, errors in parts_of_it),
    )


async def _connection(host: str, port: int, requests: Iterator[bytes], until: float) -> tuple[list[float], int]:
    latencies: list[float] = []
    errors = 0
    while time.perf_counter() < until:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            while (began := time.perf_counter()) < until:
                writer.write(next(requests))
                errors += not (await _status(reader)).startswith("2")
                latencies.append(time.perf_counter() - began)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            errors += 1
            await asyncio.sleep(0.05)
    return latencies, errors


async def _status(reader: asyncio.StreamReader) -> str:
    """Read one answer to its end and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    length = next((line.split(":", 1)[1] for line in lines if line.startswith("content-length:")), "0")
    await reader.readexactly(int(length))
    return lines[0].split(" ")[1]


def quantile(ordered: Sequence[float], q: float) -> float:
    """The value at rank ceil(q·n) of an ascending sequence; 0 for an empty one."""
    return ordered[max(0, -int(-q * len(ordered) // 1) - 1)] if ordered else 0.0

"""Round robin, least request and pick before the same engines, on the wall clock: `python -m bench.wall_clock_ranking`.

One gateway as `tidegate up` runs it, eight `tidegate engine-sim`, and three clusters of the same replicas, each with a
policy and a model name of its own. Each gets the same arrivals: the lab's synthetic conversation, with the same
prefixes but tokens of its own, so that none profits of what another left in the engines' caches. Prompts are an eighth
and answers a quarter of the trace's, and the engines run four times slower than their models, so that hundreds of
requests are under way while two cores still keep up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from rich.console import Console
from rich.table import Table

from bench import processes
from bench.gateway import TIDEGATE, gateway
from bench.ports import accepts, free_port
from simulator.lab.synthetic import generate
from simulator.lab.trace import BLOCK_TOKENS, Trace, TraceRequest

ENGINES: Final = 8
TIME_SCALE: Final = 0.25
PROMPT_PART, OUTPUT_PART = 1 / 8, 1 / 4
KV_BLOCKS: Final = 7_600
"""Of 16 tokens: an eighth of the lab's cache, as the prompts are."""
MAX_TOKENS: Final = 16_384
RATE: Final = 14.0
SECONDS: Final = 60.0
TTFT_SECONDS, TPOT_SECONDS = 2.0 / TIME_SCALE, 0.06 / TIME_SCALE
"""The lab's objectives, as slow as the engines are."""
POLICIES: Final[dict[str, dict[str, Any]]] = {
    "round_robin": {"lb": "weighted"},
    "least_request": {"lb": "weighted", "envoy": {"balance": "least_request"}},
    "pick": {"lb": "pick"},
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds, and tokens as the engine counts them; `ttft` None where the request failed."""

    ttft: float | None
    total: float
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def good(self) -> bool:
        """Within both objectives."""
        if self.ttft is None:
            return False
        return self.ttft < TTFT_SECONDS and (self.total - self.ttft) / max(1, self.output_tokens - 1) < TPOT_SECONDS


def measure(seconds: float = SECONDS, rate: float = RATE, seed: int = 0) -> list[dict[str, Any]]:
    """A row a policy: TTFT p50 and p90 in s, hit ratio, goodput a second, the most requests at once, failures."""
    trace = generate("conversation", round(seconds * rate), seed)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, serving(Path(name)) as url:
        return [asyncio.run(_policy(url, policy, trace, rate)) for policy in POLICIES]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Engines and gateway; its URL once it serves. Raises RuntimeError with the end of a log."""
    with contextlib.ExitStack() as stack:
        engines = [_engine(stack, folder, number) for number in range(ENGINES)]
        for port, process, log in engines:
            processes.wait_for(lambda port=port: accepts(port), process, log, seconds=120)  # type: ignore[misc]
        config = _config([port for port, *_ in engines])
        ready = stack.enter_context(gateway(folder, config, start_seconds=120))
        yield json.loads(ready.read_text())["gateway"]


def _engine(stack: contextlib.ExitStack, folder: Path, number: int) -> tuple[int, Any, Path]:
    port, log = free_port(), folder / f"engine-{number}.log"
    models = [flag for policy in POLICIES for flag in ("--model", policy)]
    sizes = ("--kv-blocks", str(KV_BLOCKS), "--max-model-len", str(MAX_TOKENS), "--time-scale", str(TIME_SCALE))
    process = processes.start([*TIDEGATE, "engine-sim", "--port", str(port), *models, *sizes], log)
    stack.callback(processes.stop, process)
    return port, process, log


def _config(ports: Sequence[int]) -> dict[str, Any]:
    endpoints = [{"address": f"127.0.0.1:{port}"} for port in ports]
    return {
        "gateway": {"listen": "127.0.0.1:0"},
        "redis": {"url": f"redis://127.0.0.1:{free_port()}/0"},
        "clusters": [{"name": name, "models": [name], "endpoints": endpoints, **how} for name, how in POLICIES.items()],
    }


async def _policy(url: str, policy: str, trace: Trace, rate: float) -> dict[str, Any]:
    limits, factor = aiohttp.ClientTimeout(total=300), trace.seconds * rate / len(trace.requests)
    began, under_way, most = time.monotonic(), 0, 0
    dice = random.Random("stamps")  # a recorder's grid hides when in it a request came

    async def one(client: aiohttp.ClientSession, request: TraceRequest, at: float) -> Answer:
        nonlocal under_way, most
        await asyncio.sleep(began + at - time.monotonic())
        under_way += 1
        most = max(most, under_way)
        try:
            return await _ask(client, url, policy, request)
        except (aiohttp.ClientError, TimeoutError):
            return Answer(None, 0.0)
        finally:
            under_way -= 1

    stamps = [(r.at_seconds + dice.random() * trace.quantum_seconds) / factor for r in trace.requests]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as client:
        asked = (one(client, request, at) for request, at in zip(trace.requests, stamps, strict=True))
        answers = await asyncio.gather(*asked)
    return {"policy": policy, **_figures(answers, max(stamps)), "most_at_once": most}


async def _ask(client: aiohttp.ClientSession, url: str, policy: str, request: TraceRequest) -> Answer:
    output = max(1, round(request.output_tokens * OUTPUT_PART))
    body = {
        "model": policy,
        "prompt": prompt(policy, request),
        "max_tokens": output,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.monotonic()
    async with client.post(f"{url}/v1/completions", json=body) as got:
        first = await got.content.readany()
        ttft, tail = time.monotonic() - began, first
        async for part in got.content.iter_any():
            tail = (tail + part)[-2_000:]
        if got.status != 200:
            return Answer(None, time.monotonic() - began)
    usage = json.loads(tail[tail.rindex(b'"usage":') + 8 :].partition(b"\n")[0].strip()[:-1])
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    total = time.monotonic() - began
    return Answer(ttft, total, usage["completion_tokens"], usage["prompt_tokens"], cached)


def prompt(policy: str, request: TraceRequest) -> list[int]:
    """Token ids: equal blocks of the trace are equal tokens, for one policy."""
    size, ids = round(BLOCK_TOKENS * PROMPT_PART), []
    for block in request.blocks:
        ids += random.Random(f"{policy} {block}").choices(range(30_000), k=size)
    return ids[: max(1, min(round(request.prompt_tokens * PROMPT_PART), MAX_TOKENS - 1_000))]


def _figures(answers: Sequence[Answer], seconds: float) -> dict[str, Any]:
    firsts = sorted(one.ttft for one in answers if one.ttft is not None)
    prompts = sum(one.prompt_tokens for one in answers)
    return {
        "ttft_p50": firsts[len(firsts) // 2] if firsts else None,
        "ttft_p90": firsts[len(firsts) * 9 // 10] if firsts else None,
        "hit_ratio": sum(one.cached_tokens for one in answers) / max(1, prompts),
        "goodput": sum(one.good for one in answers) / seconds,
        "requests": len(answers),
        "failed": sum(one.ttft is None for one in answers),
    }


def main() -> None:
    """Run and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=SECONDS, help="of arrivals, for each policy")
    arguments.add_argument("--rate", type=float, default=RATE, help="requests a second")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    rows = measure(options.seconds, options.rate, options.seed)
    table = Table(*rows[0], padding=(0, 0))
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()

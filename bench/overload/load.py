"""Requests of three kinds, as they come: urgent ones, and two classes that want more than there is."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp

HUNG_UP: Final = "hung up"
BROKEN: Final = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A stream of requests, Poisson at `per_second`; `hang_up_ratio` of them leave after `patience_seconds`."""

    name: str
    per_second: float
    headers: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: int = 300
    hang_up_ratio: float = 0.0
    patience_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: its status, or HUNG_UP or BROKEN. Seconds from its start; None without a 200."""

    kind: str
    status: str
    ttft_seconds: float | None
    reason: str = ""
    ended_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a request asks for."""

    model: str = "m"
    output_tokens: int = 64

    def body(self, dice: random.Random, prompt_tokens: int) -> bytes:
        """A prompt that no other request shares."""
        ids = dice.choices(range(30_000), k=prompt_tokens)
        return json.dumps(
            {"model": self.model, "prompt": ids, "max_tokens": self.output_tokens, "stream": True}
        ).encode()


async def send_all(url: str, kinds: Sequence[Kind], shape: Shape, seconds: float, seed: int = 1) -> list[Outcome]:
    """Send for so long, and wait until every request has an answer."""
    limits = aiohttp.ClientTimeout(total=180)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as client:
        streams = [_stream(client, url, kind, shape, seconds, f"{seed} {kind.name}") for kind in kinds]
        return [one for outcomes in await asyncio.gather(*streams) for one in outcomes]


async def saturate(url: str, shape: Shape, clients: int, seconds: float) -> float:
    """Answers a second to so many clients, each with one request under way; the first third does not count."""
    end, counted_from = time.monotonic() + seconds, time.monotonic() + seconds / 3
    limits, kind = aiohttp.ClientTimeout(total=180), Kind(name="all", per_second=0.0)

    async def client_of(number: int, client: aiohttp.ClientSession) -> int:
        dice, served = random.Random(number), 0
        while time.monotonic() < end:
            outcome = await _one(client, url, kind, shape.body(dice, kind.prompt_tokens), None)
            served += counted_from <= outcome.ended_at <= end and outcome.status == "200"
        return served

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as client:
        served = await asyncio.gather(*(client_of(number, client) for number in range(clients)))
    return sum(served) / (seconds * 2 / 3)


async def _stream(
    client: aiohttp.ClientSession, url: str, kind: Kind, shape: Shape, seconds: float, seed: str
) -> list[Outcome]:
    dice, began, at = random.Random(seed), time.monotonic(), 0.0
    tasks: list[asyncio.Task[Outcome]] = []
    while (at := at + dice.expovariate(kind.per_second)) < seconds:
        await asyncio.sleep(began + at - time.monotonic())
        patience = kind.patience_seconds if dice.random() < kind.hang_up_ratio else None
        tasks.append(asyncio.create_task(_one(client, url, kind, shape.body(dice, kind.prompt_tokens), patience)))
    return list(await asyncio.gather(*tasks))


async def _one(client: aiohttp.ClientSession, url: str, kind: Kind, body: bytes, patience: float | None) -> Outcome:
    try:
        async with asyncio.timeout(patience):
            return await _answered(client, url, kind, body)
    except TimeoutError:
        status = BROKEN if patience is None else HUNG_UP
    except aiohttp.ClientError:
        status = BROKEN
    return Outcome(kind.name, status, None, "", time.monotonic())


async def _answered(client: aiohttp.ClientSession, url: str, kind: Kind, body: bytes) -> Outcome:
    began = time.monotonic()
    headers = {"content-type": "application/json", **kind.headers}
    async with client.post(f"{url}/v1/completions", data=body, headers=headers) as got:
        await got.content.readany()
        first = time.monotonic() - began
        await got.read()
        good = first if got.status == 200 else None
        reason = got.headers.get("x-tidegate-reason", "")
        return Outcome(kind.name, str(got.status), good, reason, time.monotonic())

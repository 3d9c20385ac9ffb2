"""Requests whose answers tell whether they were right, and the engines that answer them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web

from tests.ports import take_free_port

MODELS: Final = ("red", "green", "blue")
ALIASES: Final = {"rouge": "red", "vert": "green"}
"""Names that ext_proc has to write anew in the body."""
SIZES: Final = (200, 200, 200, 20_000, 300_000)
ALLOWED: Final = frozenset({"500", "502", "503", "504", "cut"})
"""How a request may fail while something breaks; anything else but a right answer is wrong."""
PATH: Final = "/v1/chat/completions"


@dataclass
class Engine:
    """Answers with its model, the request's id, and a digest of the body that it got."""

    model: str
    port: int = field(default_factory=take_free_port)
    runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 25)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        digest = hashlib.sha256(body).hexdigest()
        return web.json_response({"engine": self.model, "id": request.headers.get("x-id"), "sha256": digest})


def body(model: str, number: int, size: int) -> bytes:
    """A chat that no other request says."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": f"{number} " + "x" * size}]}).encode()


@dataclass
class Load:
    """Clients that ask without a pause. `outcomes` counts "200", statuses, "cut"; `wrong` are answers to other requests."""

    port: int
    seed: int = 1
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    number: int = 0
    stopping: bool = False

    async def run(self, clients: int, seconds: float | None = None) -> None:
        """Ask until `stopping`, or for so long."""
        timeout = aiohttp.ClientTimeout(total=60)
        end = None if seconds is None else asyncio.get_running_loop().time() + seconds
        connector = aiohttp.TCPConnector(limit=0, enable_cleanup_closed=False)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session, asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(self._client(session, random.Random(f"{self.seed} {number}"), end))

    async def _client(self, session: aiohttp.ClientSession, choose: random.Random, end: float | None) -> None:
        while not self.stopping and (end is None or asyncio.get_running_loop().time() < end):
            outcome = await self.ask(session, choose.choice((*MODELS, *ALIASES)), choose.choice(SIZES))
            self.outcomes[outcome] += 1
            if outcome != "200":
                await asyncio.sleep(0.02)

    async def ask(self, session: aiohttp.ClientSession, model: str, size: int) -> str:
        """One request: "200" for a right answer, else the status or "cut"."""
        self.number += 1
        number = self.number
        sent, headers = body(model, number, size), {"x-id": str(number), "content-type": "application/json"}
        try:
            async with session.post(f"http://127.0.0.1:{self.port}{PATH}", data=sent, headers=headers) as got:
                text = await got.text()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return "cut"
        if got.status == 200:
            self._check(model, number, sent, text)
        elif str(got.status) not in ALLOWED:
            self.wrong.append(f"{got.status} for {model} {number}: {text[:200]}")
        return str(got.status)

    def _check(self, model: str, number: int, sent: bytes, text: str) -> None:
        name = ALIASES.get(model, model)
        expected = sent.replace(f'"{model}"'.encode(), f'"{name}"'.encode(), 1)
        right = {"engine": name, "id": str(number), "sha256": hashlib.sha256(expected).hexdigest()}
        if json.loads(text) != right:
            self.wrong.append(f"{text} for {right}")

    @contextlib.contextmanager
    def other(self) -> Iterator[Load]:
        """A load on the same gateway whose outcomes are its own, but for what was wrong."""
        other = Load(self.port, self.seed + 1, number=1 << 30)
        yield other
        self.wrong += other.wrong


async def half_a_request(port: int, size: int, choose: random.Random) -> None:
    """A client that resets its connection amid its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = body("red", 0, size)
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    writer.write(head.encode() + sent[: choose.randrange(len(sent))])
    with contextlib.suppress(ConnectionError):  # the gateway may refuse it before, and close
        await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    del reader

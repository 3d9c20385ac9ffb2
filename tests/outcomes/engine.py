"""An engine that does as the header `x-do` says: status, delay, events, breaking off. It has vLLM's page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PAGE = "".join(
    f'# TYPE vllm:{name} gauge\nvllm:{name}{{model_name="m"}} 0\n'
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
)


@dataclass
class Engine:
    """`status` is answered after `delay` seconds; `events` are sent `gap` seconds apart; `break` cuts the answer.

    `heard` are the requests that named themselves by `id`; `ttfb_ms` and `total_ms` are how long those took here that
    were answered: until the first byte left, and until the last was about to.
    """

    runner: web.AppRunner | None = None
    address: str = ""
    served: int = 0
    heard: set[int] = field(default_factory=set)
    ttfb_ms: list[float] = field(default_factory=list)
    total_ms: list[float] = field(default_factory=list)

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._page)
        app.router.add_get("/health", self._page)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.address = f"127.0.0.1:{self.runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(text=PAGE)

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        began = time.perf_counter()
        await request.read()
        told = json.loads(request.headers.get("x-do", "{}"))
        self.served += 1
        self.heard.add(told.get("id", 0))
        await asyncio.sleep(told.get("delay", 0))
        first = time.perf_counter()
        if not told.get("events"):
            if told.get("break"):
                assert request.transport is not None
                request.transport.abort()
            self._answered(began, first)
            return web.json_response({"object": "chat.completion"}, status=told.get("status", 200))
        with contextlib.suppress(ConnectionError):  # the client went away
            return await self._events(request, told, began)
        return web.Response()

    def _answered(self, began: float, first: float) -> None:
        self.ttfb_ms.append((first - began) * 1000)
        self.total_ms.append((time.perf_counter() - began) * 1000)

    async def _events(self, request: web.Request, told: dict[str, Any], began: float) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        first = time.perf_counter()
        await response.prepare(request)
        for number in range(told["events"]):
            await response.write(b'data: {"n": %d}\n\n' % number)
            await asyncio.sleep(told.get("gap", 0))
            if told.get("break"):
                assert request.transport is not None
                request.transport.abort()
                return response
        self._answered(began, first)
        await response.write(b"data: [DONE]\n\n")
        return response

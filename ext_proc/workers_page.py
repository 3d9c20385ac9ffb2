"""The metrics page of several workers: one target for Prometheus, every series summed over them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from ext_proc.workers_sums import Sums
from tidegate.domain.errors import ConfigError
from tidegate.exposition import Families, decode_life, life_of
from tidegate.telemetry import LIFE_PATH, bind_page, metrics_response

PATIENCE_SECONDS: Final = 1.0


class WorkersPage:
    """`/metrics`, `/healthz` and `/debug/last` of all workers. `addresses` are their pages, None where one is away."""

    def __init__(
        self,
        registry: CollectorRegistry,
        addresses: Callable[[], Mapping[str, str | None]],
        stopping: Callable[[], bool],
    ) -> None:
        self._own, self._addresses, self._stopping = Families(registry), addresses, stopping
        self._sums, self._looking = Sums(), asyncio.Lock()
        registry.register(_Shares(self._sums))
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self, listen: str | None) -> str | None:
        """Bind `host:port` (port 0: any free one); the bound address, or None when `listen` is None.

        Raises ConfigError when it cannot be bound.
        """
        if listen is None:
            return None
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/debug/last", self._last)
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS))
        self._runner = web.AppRunner(app, access_log=None)
        try:
            return await bind_page(self._runner, listen)
        except ConfigError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Release the port."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        async with self._looking:  # of two scrapes at once, the slower one would bring back a life that has ended
            read = {worker: decode_life(page) for worker, page in (await self._ask(LIFE_PATH)).items()}
            self._sums.heard({worker: life for worker, life in read.items() if life is not None})
            summed = self._sums.summed(life_of("parent", self._own))
        return await metrics_response(summed, request)

    async def _healthz(self, _: web.Request) -> web.Response:
        if self._stopping():
            return web.Response(status=503, text="stopping")
        served = any(self._addresses().values())
        return web.Response(status=200 if served else 503, text="ok\n" if served else "no worker serves")

    async def _last(self, request: web.Request) -> web.Response:
        """`?n=N`: the newest N of each worker, by worker."""
        count = request.query.get("n", "1")
        if not (count.isascii() and count.isdigit() and len(count) <= 9):
            return web.Response(status=400, text="n has to be a whole number\n")
        pages = await self._ask(f"/debug/last?n={count}")
        body = ",".join(f'"{worker}":{page.decode()}' for worker, page in pages.items())
        return web.Response(text=f"{{{body}}}", content_type="application/json")

    async def _ask(self, path: str) -> dict[str, bytes]:
        """The page of each worker that answers."""
        asked = {worker: address for worker, address in self._addresses().items() if address is not None}
        pages = await asyncio.gather(*(self._page(address, path) for address in asked.values()))
        return {worker: page for worker, page in zip(asked, pages, strict=True) if page is not None}

    async def _page(self, address: str, path: str) -> bytes | None:
        assert self._session is not None
        try:
            async with self._session.get(f"http://{address}{path}") as response:
                return await response.read() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None


class _Shares(Collector):
    """How the workers share the work: the one thing that a sum does not show."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    def collect(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily(
            "tidegate_ext_proc_worker_decisions", "Decisions of a worker since it started", labels=["worker"]
        )
        for worker, count in self._sums.by_worker("tidegate_ext_proc_decision_seconds_count").items():
            decisions.add_metric([worker], count)
        yield decisions

"""The metrics page of several workers: one target for Prometheus, every series with the worker that it is of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tidegate.domain.errors import ConfigError
from tidegate.telemetry import bind_page

PARENT: Final = "parent"
"""The label of the series that are of no worker."""
PATIENCE_SECONDS: Final = 1.0


class WorkersPage:
    """`/metrics`, `/healthz` and `/debug/last` of all workers. `addresses` are their pages, None where one is away."""

    def __init__(
        self,
        registry: CollectorRegistry,
        addresses: Callable[[], Mapping[str, str | None]],
        stopping: Callable[[], bool],
    ) -> None:
        self._registry, self._addresses, self._stopping = registry, addresses, stopping
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

    async def _metrics(self, _: web.Request) -> web.Response:
        pages = {PARENT: generate_latest(self._registry).decode(), **await self._ask("/metrics")}
        merged = CollectorRegistry()
        merged.register(_Merged(pages))
        return web.Response(body=generate_latest(merged), headers={"Content-Type": CONTENT_TYPE_LATEST})

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
        body = ",".join(f'"{worker}":{page}' for worker, page in pages.items())
        return web.Response(text=f"{{{body}}}", content_type="application/json")

    async def _ask(self, path: str) -> dict[str, str]:
        """The page of each worker that answers."""
        asked = {worker: address for worker, address in self._addresses().items() if address is not None}
        pages = await asyncio.gather(*(self._page(address, path) for address in asked.values()))
        return {worker: page for worker, page in zip(asked, pages, strict=True) if page is not None}

    async def _page(self, address: str, path: str) -> str | None:
        assert self._session is not None
        try:
            async with self._session.get(f"http://{address}{path}") as response:
                return await response.text() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None


class _Merged(Collector):
    """The families of several pages, each once, its samples labelled with their page."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self._pages = pages

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for worker, page in self._pages.items():
            for family in text_string_to_metric_families(page):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples += _labelled(family.samples, worker)
        yield from families.values()


def _labelled(samples: Iterable[Any], worker: str) -> list[Any]:
    return [sample._replace(labels={**sample.labels, "worker": worker}) for sample in samples]

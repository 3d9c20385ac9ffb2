"""Logs and the metrics page. One registry a process, passed in; no global state but structlog's configuration."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import split_listen
from tidegate.exposition import Collected, Families, encode_life, life_of, page_of


def configure_logs(level: str, log_format: str) -> None:
    """Send logs to stderr as JSON lines or as a console reads them (`auto`: console on a terminal)."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


LastOf = Callable[[int], list[Any]]
"""The newest `n` of something, JSON-able."""


LIFE_PATH: Final = "/metrics/life"
LONG_SERIES: Final = 1000
"""Series that take some 2 ms to be written: more of them would hold up requests."""


class MetricsPage:
    """`/metrics` and `/healthz` on one port. `health()` returns None when well, else a sentence (503).

    `lists` adds pages by path that answer `?n=N` (1 unless given) with JSON. LIFE_PATH tells what `/metrics` does as
    values, for the process that sums several.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        health: Callable[[], str | None],
        lists: Mapping[str, LastOf] = MappingProxyType({}),
    ) -> None:
        self._families, self._health, self._lists = Families(registry), health, lists
        self._life = secrets.token_hex(8)
        self._runner: web.AppRunner | None = None

    async def start(self, listen: str | None) -> str | None:
        """Bind `host:port` (port 0: any free one); the bound address, or None when `listen` is None.

        Raises ConfigError when it cannot be bound.
        """
        if listen is None:
            return None
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get(LIFE_PATH, self._told)
        app.router.add_get("/healthz", self._healthz)
        for path, last in self._lists.items():
            app.router.add_get(path, partial(_listed, last))
        self._runner = web.AppRunner(app, access_log=None)
        return await bind_page(self._runner, listen)

    async def stop(self) -> None:
        """Release the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        return await metrics_response(self._families, request)

    async def _told(self, _: web.Request) -> web.Response:
        return web.Response(body=encode_life(life_of(self._life, self._families)))

    async def _healthz(self, _: web.Request) -> web.Response:
        trouble = self._health()
        return web.Response(status=503 if trouble else 200, text=trouble or "ok\n")


async def metrics_response(source: Collector, request: web.Request) -> web.Response:
    """The page in the format and the encoding that the request accepts; a long one is written beside the event loop."""
    collected = Collected(source)
    asked = collected, request.headers.get("Accept"), request.headers.get("Accept-Encoding")
    page = await asyncio.to_thread(page_of, *asked) if collected.series > LONG_SERIES else page_of(*asked)
    return web.Response(body=page.body, headers=page.headers)


async def bind_page(runner: web.AppRunner, listen: str) -> str:
    """Serve the runner's page on `host:port` of `--metrics-listen`; the bound address. Raises ConfigError."""
    await runner.setup()
    try:
        await web.TCPSite(runner, *split_listen(listen)).start()
    except (OSError, ValueError) as exc:
        raise ConfigError([f"--metrics-listen {listen} cannot be bound: {exc}"]) from exc
    bound = runner.addresses[0]
    return f"{bound[0]}:{bound[1]}"


async def _listed(last: LastOf, request: web.Request) -> web.Response:
    asked = request.query.get("n", "1")
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 9):
        return web.Response(status=400, text="n has to be a whole number\n")
    return web.json_response(last(int(asked)))

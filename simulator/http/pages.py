"""What every kind of engine serves besides generation: health, models, metrics, and the tests' own paths."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from simulator.http.bodies import body_of
from simulator.http.errors import bad_request, json_response
from simulator.http.faults import Fault, Faults
from simulator.http.record import Record

_PAGE_SECONDS = 1.0


class Pages:
    """`version()` changes whenever the metrics may have; an idle engine's page is written once a second at most."""

    def __init__(
        self, models: list[str], max_model_len: int | None, registry: CollectorRegistry, version: Callable[[], int]
    ) -> None:
        self._models, self._max_model_len, self._registry, self._version = models, max_model_len, registry, version
        self._created = int(time.time())
        self._page: tuple[int, float, bytes] = (-1, 0.0, b"")

    async def models(self, _: web.Request) -> web.Response:
        """GET /v1/models."""
        data = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "vllm",
                "root": self._models[0],
                "parent": None,
                "max_model_len": self._max_model_len,
            }
            for name in self._models
        ]
        return json_response({"object": "list", "data": data})

    async def metrics(self, _: web.Request) -> web.Response:
        """GET /metrics, in the text format whatever is asked for: in OpenMetrics the colons of names would be lost."""
        version, written, page = self._page
        if version != self._version() or time.monotonic() - written > _PAGE_SECONDS:
            page = generate_latest(self._registry)
            self._page = (self._version(), time.monotonic(), page)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})


class Probes:
    """GET /health, and what only tests call."""

    def __init__(self, faults: Faults, record: Record) -> None:
        self._faults, self._record = faults, record

    async def health(self, _: web.Request) -> web.Response:
        """GET /health: an empty 200, or 503 while loading."""
        return web.Response(status=503 if self._faults.loading else 200)

    async def fault(self, request: web.Request) -> web.Response:
        """POST /sim/fault."""
        self._faults.set(await body_of(request, Fault))
        return json_response({})

    async def requests(self, request: web.Request) -> web.Response:
        """GET /sim/requests?last=N, oldest first; 404 when the engine does not record."""
        count = request.query.get("last", "1")
        if not count.isdigit():
            raise bad_request("last must be a number.", "last")
        if not self._record.enabled:
            return json_response({"detail": "The engine was not started with --record-requests."}, 404)
        return json_response(self._record.last(int(count)))

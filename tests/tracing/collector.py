"""An OTLP receiver of the test: gRPC or HTTP, and what it received as plain values."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any

import grpc
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

EXPORT = "opentelemetry.proto.collector.trace.v1.TraceService"


@dataclass(frozen=True)
class Received:
    """One span. Ids are hex; `parent` is "" for a root."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """Keeps every span of every request. `url` is where it listens."""

    url: str
    _spans: list[Received] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    stop: Any = None

    def take(self, data: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(data)
        with self._lock:
            self._spans += [span for one in request.resource_spans for span in _spans(one)]

    def spans(self, **wanted: str) -> list[Received]:
        """Those with these values, in order of their begin."""
        with self._lock:
            found = [one for one in self._spans if all(getattr(one, name) == value for name, value in wanted.items())]
        return sorted(found, key=lambda one: one.start)

    def one(self, **wanted: str) -> Received:
        (found,) = self.spans(**wanted)
        return found


def _spans(resource_spans: Any) -> list[Received]:
    service = _values(resource_spans.resource.attributes)["service.name"]
    scopes = resource_spans.DESCRIPTOR.fields_by_number[2].name  # its name depends on the age of the message's file
    return [_span(service, span) for scope in getattr(resource_spans, scopes) for span in scope.spans]


def _span(service: str, span: Any) -> Received:
    return Received(
        service=service,
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes=_values(span.attributes),
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


def collect_by_grpc() -> Collector:
    server = grpc.server(ThreadPoolExecutor(2))
    collector = Collector("")

    def export(data: bytes, _: grpc.ServicerContext) -> bytes:
        collector.take(data)
        return b""

    handler = grpc.unary_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(EXPORT, {"Export": handler}),))
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    collector.stop = lambda: server.stop(0).wait()
    server.start()
    return collector


def collect_by_http() -> Collector:
    collector = Collector("")

    async def export(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        collector.take(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", export)
    loop, runner = asyncio.new_event_loop(), web.AppRunner(app, access_log=None)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    loop.run_until_complete(start())
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    thread = Thread(target=loop.run_forever)
    thread.start()

    def stop() -> None:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    collector.stop = stop
    return collector

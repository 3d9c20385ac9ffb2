"""Stand-ins around a real Envoy: engines that say who they are, and an ext_proc that does as the body says."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import grpc
from aiohttp import web
from envoy.config.core.v3 import base_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2, external_processor_pb2_grpc

from tests.ports import take_free_port
from tidegate.grpc_health import HEALTH, Health, health_handlers
from xds_server.server import DiscoveryServicer
from xds_server.services import Method


@dataclass
class Engine:
    """Answers every request with its own name; keeps what it was sent.

    `?status=503` answers so, `?break=1` breaks off, `?hang=1` never answers, `?stream=1` sends three events, each but the first once
    `next_event` is set.
    """

    name: str
    port: int = field(default_factory=take_free_port)
    requests: list[dict[str, str]] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    answer_headers: dict[str, str] = field(default_factory=dict)
    next_event: asyncio.Event = field(default_factory=asyncio.Event)
    runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(dict(request.headers))
        self.served[request.path] += 1
        if request.query.get("hang"):
            await asyncio.Event().wait()
        if request.query.get("break"):
            assert request.transport is not None
            request.transport.abort()
        if request.query.get("stream"):
            return await self._stream(request)
        status = int(request.query.get("status", "200"))
        said = {"engine": self.name, "bytes": len(body)}
        return web.json_response(said, status=status, headers=self.answer_headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await response.write(f"data: {number}\n\n".encode())
            await asyncio.wait_for(self.next_event.wait(), 60)
            self.next_event.clear()
        return response


class ChoosingProcessor(external_processor_pb2_grpc.ExternalProcessorServicer):
    """Routes to the cluster that the JSON body names as `model`, to the endpoints it lists as `pick`."""

    def __init__(self) -> None:
        self.attributes: list[dict[str, Any]] = []

    async def Process(self, requests: Any, context: Any) -> Any:  # noqa: N802
        async for request in requests:
            fields = request.attributes["envoy.filters.http.ext_proc"].fields
            self.attributes.append({key: value.string_value for key, value in fields.items()})
            yield self._answer(json.loads(request.request_body.body))

    def _answer(self, body: dict[str, Any]) -> Any:
        response = external_processor_pb2.ProcessingResponse()
        if "refuse" in body:
            response.immediate_response.status.code = body["refuse"]
            response.immediate_response.body = b'{"error": "mine"}'
            return response
        common = response.request_body.response
        common.clear_route_cache = True
        header = base_pb2.HeaderValue(key="x-request-read", raw_value=b"1")
        common.header_mutation.set_headers.append(base_pb2.HeaderValueOption(header=header))
        metadata: dict[str, Any] = {"tidegate": {"cluster": body["model"]}}
        if "pick" in body:
            metadata["envoy.lb"] = {"x-gateway-destination-endpoint": body["pick"]}
        response.dynamic_metadata.update(metadata)
        return response


@dataclass
class Processor:
    """The processor behind a gRPC server that may be stopped and started again."""

    port: int = field(default_factory=take_free_port)
    servicer: ChoosingProcessor = field(default_factory=ChoosingProcessor)
    server: Any = None
    ip: str = "127.0.0.1"
    health: Health = field(default_factory=Health)

    async def start(self) -> None:
        self.server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        handlers = {path.rpartition("/")[2]: handler for path, handler in health_handlers(self.health).items()}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HEALTH, handlers),))
        external_processor_pb2_grpc.add_ExternalProcessorServicer_to_server(self.servicer, self.server)
        self.server.add_insecure_port(f"{self.ip}:{self.port}")
        await self.server.start()

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(0)
            self.server = None


class CuttingServicer(DiscoveryServicer):
    """Breaks a stream off once, right after a response of the type that `cut_after` names."""

    cut_after: str | None = None

    async def serve(self, method: Method, context: Any) -> None:
        await super().serve(method, _Cut(self, context))


class _Cut:
    def __init__(self, servicer: CuttingServicer, context: Any) -> None:
        self._servicer, self._context = servicer, context
        self.read, self.abort = context.read, context.abort

    async def write(self, data: bytes) -> None:
        await self._context.write(data)
        if self._servicer.cut_after is not None and self._servicer.cut_after.encode() in data:
            self._servicer.cut_after = None
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, "cut")

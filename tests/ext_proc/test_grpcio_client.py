"""gRPC's own client against both transports: long streams, large messages, cancels, deadlines; and h2load, raw."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc import StatusCode, aio

from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.transport.grpcio import GrpcioServer
from ext_proc.transport.wire import WireServer
from tests.conftest import until
from tests.ext_proc.parts import Picker, body_message
from tidegate.grpc_health import HEALTH, SERVING

PROCESS = f"/{EXTERNAL_PROCESSOR}/Process"
MOST = 1 << 25
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Echo:
    """A session that answers with what it was told."""

    def handle(self, data: Any) -> bytes:
        return data if isinstance(data, bytes) else b"".join(data)


class Running:
    """A server on a picker's metrics, and a channel to it."""

    def __init__(self, kind: type[GrpcioServer | WireServer], new_session: Any = None) -> None:
        self.picker = Picker()
        self.server = kind(new_session or self.picker.session, Health(), self.picker.metrics, max_body_bytes=MOST)

    async def start(self) -> None:
        self.address = await self.server.start("127.0.0.1:0")
        self.channel = aio.insecure_channel(self.address, options=UNLIMITED)

    def process(self, **more: Any) -> Any:
        return self.channel.stream_stream(PROCESS)(**more)

    async def nothing_open(self) -> None:
        await until(lambda: self.picker.metrics.open_streams == 0, what="no open stream")


@asynccontextmanager
async def writing(call: Any, message: bytes) -> AsyncIterator[None]:
    """Beside it, the message is written; after it, no more.

    On a busy machine grpc.aio leaves a write pending for ever now and then whose call ends meanwhile.
    """
    task = asyncio.create_task(call.write(message))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=[GrpcioServer, WireServer], ids=["grpcio", "wire"])
async def start(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    running: list[Running] = []

    async def go(new_session: Any = None) -> Running:
        running.append(Running(request.param, new_session))
        await running[-1].start()
        return running[-1]

    yield go
    for one in running:
        await one.channel.close()
        await one.server.stop(0)


async def test_a_stream_of_10000_messages_is_answered_one_by_one(start: Any) -> None:
    running = await start()
    sent = pb.ProcessingRequest(request_headers=pb.HttpHeaders()).SerializeToString()
    call = running.process()

    async def say() -> None:
        for _ in range(10_000):
            await call.write(sent)
        await call.done_writing()

    saying = asyncio.create_task(say())
    answers = [answer async for answer in call]
    await saying
    assert (len(answers), len(set(answers)), await call.code()) == (10_000, 1, StatusCode.OK)
    await running.nothing_open()


async def test_messages_of_32_mib_go_and_come_whole(start: Any) -> None:
    running = await start(Echo)
    call, sent = running.process(), bytes(range(256)) * (MOST // 256)
    for _ in range(2):
        await call.write(sent)
        assert await call.read() == sent
    await call.done_writing()
    assert await call.code() is StatusCode.OK


async def test_a_message_over_the_limit_is_resource_exhausted(start: Any) -> None:
    running = await start(Echo)
    call = running.process()
    async with writing(call, bytes(2 * MOST + (1 << 20) + 1)):
        assert await call.code() is StatusCode.RESOURCE_EXHAUSTED


async def test_a_deadline_ends_the_stream_on_both_sides(start: Any) -> None:
    running = await start()
    call = running.process(timeout=0.2)
    with contextlib.suppress(aio.AioRpcError):  # on a busy machine it may come before the answer
        await call.write(body_message(b'{"model": "phi-3"}'))
        await call.read()
    assert await call.code() is StatusCode.DEADLINE_EXCEEDED
    await running.nothing_open()


async def test_cancels_amid_32_mib_leave_nothing_open(start: Any) -> None:
    running = await start(Echo)
    for _ in range(5):
        call = running.process()
        async with writing(call, bytes(MOST)):
            await until(lambda: running.picker.metrics.open_streams == 1, what="an open stream")
            call.cancel()
        await running.nothing_open()


async def test_unary_health_is_asked_a_thousand_times_beside_streams(start: Any) -> None:
    running = await start()
    call = running.process()
    await call.write(body_message(b'{"model": "phi-3"}'))
    await call.read()
    check = running.channel.unary_unary(f"/{HEALTH}/Check")
    assert {await check(b"") for _ in range(1_000)} == {SERVING}
    await call.done_writing()
    assert await call.code() is StatusCode.OK


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load is not installed (Debian: nghttp2-client)")
@pytest.mark.parametrize("transport", [GrpcioServer, WireServer])
async def test_every_request_of_h2load_is_answered(transport: Any, tmp_path: Path) -> None:
    running = Running(transport)
    await running.start()
    message = body_message(b'{"model": "phi-3"}')
    (tmp_path / "message").write_bytes(pack(">BI", 0, len(message)) + message)
    command = ["h2load", "-n", "2000", "-c", "4", "-m", "32", "-d", str(tmp_path / "message")]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers", f"http://{running.address}{PROCESS}"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told = (await process.communicate())[0].decode()
    assert re.search(r"^status codes: 2000 2xx", told, re.MULTILINE), told
    assert "2000 succeeded, 0 failed, 0 errored" in told
    await running.nothing_open()
    await running.channel.close()
    await running.server.stop(0)

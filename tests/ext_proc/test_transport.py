"""Both transports move bytes, and a stream that fails never ends with OK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from grpc import StatusCode, aio

from ext_proc.health import Health
from ext_proc.transport.grpcio import ByteSession, GrpcioServer
from ext_proc.transport.wire import WireServer
from tests.conftest import until
from tests.ext_proc.parts import Answer, Picker, body_message
from tidegate.grpc_health import HEALTH, NOT_SERVING, SERVICE_UNKNOWN, SERVING, check_request

PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Crashing:
    def handle(self, data: bytes) -> bytes:
        raise KeyError("a bug")


@dataclass
class Running:
    """A server and a client's channel to it."""

    picker: Picker
    server: GrpcioServer | WireServer
    health: Health
    address: str
    channel: aio.Channel

    def process(self) -> Any:
        return self.channel.stream_stream(PROCESS)()

    def streams(self) -> float | None:
        return self.metric("tidegate_ext_proc_open_streams")

    def metric(self, name: str, **labels: str) -> float | None:
        return self.picker.registry.get_sample_value(name, labels)


@pytest.fixture(params=[GrpcioServer, WireServer], ids=["grpcio", "wire"])
async def start(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    running: list[Running] = []

    async def go(new_session: Callable[[], ByteSession] | None = None, **picker_fields: Any) -> Running:
        picker, health = Picker(**picker_fields), Health()
        server = request.param(
            new_session or picker.session,
            health,
            picker.metrics,
            max_body_bytes=picker.max_request_bytes,
        )
        address = await server.start("127.0.0.1:0")
        running.append(Running(picker, server, health, address, aio.insecure_channel(address, options=UNLIMITED)))
        return running[-1]

    yield go
    for one in running:
        await one.channel.close()
        await one.server.stop(0)


async def ask(running: Running, data: bytes) -> Answer:
    call = running.process()
    await call.write(data)
    answer = Answer.read(await call.read())
    await call.done_writing()
    assert await call.code() is StatusCode.OK
    return answer


async def test_a_request_is_answered_and_a_half_close_ends_ok(start: Any) -> None:
    running = await start()
    assert (await ask(running, body_message(b'{"model": "phi-3"}'))).cluster == "phi-3"
    await until(lambda: running.streams() == 0)


async def test_a_body_of_5_mb_passes_the_default_limit_of_grpc(start: Any) -> None:
    running = await start()
    body = b'{"messages": "' + b"x" * 5_000_000 + b'", "model": "phi-3"}'
    assert (await ask(running, body_message(body))).cluster == "phi-3"


async def test_a_body_just_over_the_limit_is_413_not_a_broken_stream(start: Any) -> None:
    running = await start(max_request_bytes=5_000_000)
    assert (await ask(running, body_message(b" " * 9_000_000))).status == 413


async def test_a_crash_ends_the_stream_with_internal(start: Any) -> None:
    running = await start(Crashing)
    call = running.process()
    await call.write(body_message(b"{}"))
    with pytest.raises(aio.AioRpcError) as failed:
        await call.read()
    assert failed.value.code() is StatusCode.INTERNAL
    assert "a bug" not in (failed.value.details() or "")
    assert running.metric("tidegate_ext_proc_failures_total", kind="crash") == 1


async def test_a_broken_protocol_ends_the_stream_with_an_error(start: Any) -> None:
    running = await start()
    call = running.process()
    await call.write(b"\xff\xff")
    with pytest.raises(aio.AioRpcError) as failed:
        await call.read()
    assert failed.value.code() is StatusCode.INVALID_ARGUMENT
    assert running.metric("tidegate_ext_proc_failures_total", kind="protocol") == 1


async def test_a_cancel_in_mid_stream_is_a_normal_end(start: Any) -> None:
    running = await start()
    call = running.process()
    await call.write(body_message(b'{"model": "phi-3"}'))
    await call.read()
    assert running.streams() == 1
    call.cancel()
    await until(lambda: running.streams() == 0)
    assert (await ask(running, body_message(b'{"model": "phi-3"}'))).cluster == "phi-3"
    assert running.metric("tidegate_ext_proc_failures_total", kind="crash") == 0


async def test_cancels_before_the_answer_leave_nothing_open(start: Any) -> None:
    running = await start()
    for _ in range(50):
        call = running.process()
        await call.write(body_message(b'{"model": "phi-3"}'))
        call.cancel()
    assert (await ask(running, body_message(b'{"model": "phi-3"}'))).cluster == "phi-3"
    await until(lambda: running.streams() == 0)
    assert running.metric("tidegate_ext_proc_failures_total", kind="crash") == 0


async def test_many_streams_at_once_do_not_mix(start: Any) -> None:
    running = await start()
    models = ["phi-3", "qwen2.5-72b", "gpt-9"] * 30
    answers = await asyncio.gather(
        *(ask(running, body_message(b'{"model": "%s"}' % model.encode())) for model in models)
    )
    told = [answer.status or answer.cluster for answer in answers]
    assert told == ["phi-3", "qwen", 404] * 30


async def test_stop_lets_an_open_stream_end(start: Any) -> None:
    running = await start()
    call = running.process()
    await call.write(body_message(b'{"model": "phi-3"}'))
    await call.read()
    stopping = asyncio.create_task(running.server.stop(60))
    await call.done_writing()
    assert await call.code() is StatusCode.OK
    await stopping


async def test_another_method_is_unimplemented(start: Any) -> None:
    running = await start()
    with pytest.raises(aio.AioRpcError) as failed:
        await running.channel.unary_unary("/envoy.service.ext_proc.v3.ExternalProcessor/Other")(b"")
    assert failed.value.code() is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("request_", [b"", check_request("envoy.service.ext_proc.v3.ExternalProcessor")])
async def test_health_serves_until_it_drains(start: Any, request_: bytes) -> None:
    running = await start()
    check = running.channel.unary_unary(f"/{HEALTH}/Check")
    watch = running.channel.unary_stream(f"/{HEALTH}/Watch")(request_)
    assert await check(request_) == SERVING
    assert await watch.read() == SERVING
    running.health.drain()
    assert await watch.read() == NOT_SERVING
    assert await check(request_) == NOT_SERVING
    watch.cancel()


async def test_health_of_an_unknown_service_is_not_found(start: Any) -> None:
    running = await start()
    with pytest.raises(aio.AioRpcError) as failed:
        await running.channel.unary_unary(f"/{HEALTH}/Check")(check_request("other"))
    assert failed.value.code() is StatusCode.NOT_FOUND
    watch = running.channel.unary_stream(f"/{HEALTH}/Watch")(check_request("other"))
    assert await watch.read() == SERVICE_UNKNOWN
    watch.cancel()


async def test_a_taken_port_is_an_os_error(start: Any) -> None:
    running = await start()
    second = type(running.server)(running.picker.session, Health(), running.picker.metrics, max_body_bytes=1)
    with pytest.raises(OSError, match="cannot listen on"):
        await second.start(running.address)

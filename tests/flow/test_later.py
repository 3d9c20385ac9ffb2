"""Both transports ask Envoy for time, answer when there is an answer, and free the place of a client that leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from grpc import StatusCode, aio

from ext_proc.buffered import Attributes
from ext_proc.flow.later import Reply
from ext_proc.health import Health
from ext_proc.session import Session
from ext_proc.transport.grpcio import GrpcioServer
from ext_proc.transport.wire import WireServer
from tests.conftest import until
from tests.ext_proc.parts import Answer, Picker, body_message
from tests.flow.test_gate import body, crowd, full

PROCESS = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"


@dataclass
class Running:
    """A full cluster behind a transport, and a client's channel to it."""

    picker: Picker
    channel: aio.Channel

    def stream(self) -> Any:
        return self.channel.stream_stream(PROCESS)()

    async def waiting_stream(self) -> Any:
        """A stream whose request waits; its first answer asks for time."""
        call = self.stream()
        await call.write(body_message(body()))
        first = Answer.read(await call.read())
        assert first.response.override_message_timeout.ToMilliseconds() > 30_000
        return call

    @property
    def idle(self) -> bool:
        return not self.picker.gates.of("phi-3").busy and self.metric("tidegate_ext_proc_open_streams") == 0

    def metric(self, name: str, **labels: str) -> float | None:
        return self.picker.registry.get_sample_value(name, labels)


@pytest.fixture(params=[GrpcioServer, WireServer], ids=["grpcio", "wire"])
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    picker = full(1)

    def decide(data: bytes, attributes: Attributes) -> Reply:
        return picker.decider.decide(data, attributes)

    server = request.param(lambda: Session(decide), Health(), picker.metrics, max_body_bytes=picker.max_request_bytes)
    address = await server.start("127.0.0.1:0")
    channel = aio.insecure_channel(address)
    yield Running(picker, channel)
    await channel.close()
    await server.stop(0)


async def test_time_first_then_the_answer(running: Running) -> None:
    call = await running.waiting_stream()
    crowd(running.picker, 0.1)
    assert Answer.read(await call.read()).destinations == ["10.0.0.1:8000"]
    await call.done_writing()
    assert await call.code() is StatusCode.OK
    await until(lambda: running.idle)


async def test_a_reset_frees_the_place(running: Running) -> None:
    call = await running.waiting_stream()
    assert running.picker.gates.of("phi-3").busy
    call.cancel()
    await until(lambda: running.idle, what="the place is free")
    assert running.metric("tidegate_queue_outcomes_total", cluster="phi-3", outcome="gone") == 1


async def test_a_half_close_frees_the_place(running: Running) -> None:
    call = await running.waiting_stream()
    await call.done_writing()
    await until(lambda: running.idle, what="the place is free")
    assert running.metric("tidegate_queue_outcomes_total", cluster="phi-3", outcome="gone") == 1


async def test_a_lost_connection_frees_every_place(running: Running) -> None:
    for _ in range(3):
        await running.waiting_stream()
    await running.channel.close()
    await until(lambda: running.idle, what="the places are free")


async def test_a_fault_while_waiting_aborts_that_stream(running: Running) -> None:
    call = await running.waiting_stream()
    running.picker.recent.sent = None  # type: ignore[method-assign,assignment]
    crowd(running.picker, 0.1)
    with pytest.raises(aio.AioRpcError) as failed:
        await call.read()
    assert failed.value.code() is StatusCode.INTERNAL
    assert running.metric("tidegate_ext_proc_failures_total", kind="crash") == 1
    await until(lambda: running.idle)


async def test_a_message_before_the_answer_breaks_the_protocol(running: Running) -> None:
    call = await running.waiting_stream()
    await call.write(body_message(body()))
    with pytest.raises(aio.AioRpcError) as failed:
        await call.read()
    assert failed.value.code() is StatusCode.INVALID_ARGUMENT
    await until(lambda: running.idle)


async def test_stopping_answers_those_who_wait(running: Running) -> None:
    call = await running.waiting_stream()
    running.picker.gates.stop()
    assert Answer.read(await call.read()).cluster == "phi-3"

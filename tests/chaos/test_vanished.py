"""Connections that end badly leave nothing in a server of ours: no client, no task, no timer, no descriptor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from operator import le
from typing import Any

import pytest
from grpc import aio

from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.frames import PREFACE
from ext_proc.transport.http2.limits import Limits
from ext_proc.transport.wire import WireServer
from tests.chaos.line import Line
from tests.conftest import until
from tests.ext_proc.http2.client import REQUEST, headers
from tests.ext_proc.parts import Picker, body_message

QUICK = Limits(quiet_seconds=0.3, answer_seconds=0.3, stuck_seconds=0.5)
PROCESS = f"/{EXTERNAL_PROCESSOR}/Process"
PATIENT = Limits(quiet_seconds=0.3, answer_seconds=3.0, stuck_seconds=60.0)
"""For a client that answers, from another thread, as soon as a busy machine lets it."""
OPEN = headers(1, (*REQUEST[:2], (":path", PROCESS), *REQUEST[3:]))


class Running:
    """A server, and a line to it."""

    def __init__(self, limits: Limits) -> None:
        self.picker = Picker()
        self.server = WireServer(
            self.picker.session, Health(), self.picker.metrics, max_body_bytes=1 << 25, limits=limits
        )

    async def start(self) -> None:
        address = await self.server.start("127.0.0.1:0")
        self.line = Line(int(address.rpartition(":")[2]))
        await self.line.start()

    def held(self) -> tuple[int, int]:
        """Open streams and clients."""
        return self.picker.metrics.open_streams, len(self.server._clients)

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection with an open stream, of a client that answers no PING."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.line.port)
        writer.write(PREFACE + frames.settings({}) + frames.SETTINGS_ACK + OPEN)
        return reader, writer


@pytest.fixture
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    one = Running(getattr(request, "param", QUICK))
    await one.start()
    yield one
    await one.line.stop()
    await one.server.stop(0)


async def test_a_client_that_vanished_without_a_fin_is_let_go(running: Running) -> None:
    _, writer = await running.open()
    await until(lambda: running.held() == (1, 1), what="an open stream")
    running.line.fall_silent()
    await until(lambda: running.held() == (0, 0), what="its end")
    writer.close()


@pytest.mark.parametrize("running", [PATIENT], indirect=True, ids=["patient"])
async def test_a_client_that_answers_pings_stays_and_its_stream_with_it(running: Running) -> None:
    async with aio.insecure_channel(f"127.0.0.1:{running.line.port}") as channel:
        call = channel.stream_stream(PROCESS)()
        await call.write(body_message(b'{"model": "phi-3"}'))
        await call.read()
        _, writer = await running.open()
        await until(lambda: running.held() == (2, 2), what="two open streams")
        await until(lambda: running.held() == (1, 1), what="the end of the one that answers nothing")
        await asyncio.sleep(3 * PATIENT.quiet_seconds)
        assert running.held() == (1, 1)
        call.cancel()
        writer.close()


async def test_cut_connections_leave_no_task_and_no_descriptor(running: Running) -> None:
    async def broken() -> None:
        _, writer = await running.open()
        await until(lambda: running.held() == (1, 1), what="an open stream")
        await running.line.cut()
        await until(lambda: running.held() == (0, 0), what="its end")
        writer.close()

    await broken()
    await until(lambda: not running.line.pairs, what="the line without connections")
    before = _held_by_us()
    for _ in range(20):
        await broken()
    await until(lambda: all(map(le, _held_by_us(), before)), what=f"at most {before} tasks and descriptors")


def _held_by_us() -> tuple[Any, ...]:
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - itself an open descriptor

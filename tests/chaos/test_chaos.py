"""Whatever breaks between Envoy and ext_proc, no request is answered by another's answer, and nothing is left after."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.chaos.gateway import WORKERS, Gateway, Held
from tests.chaos.line import CHUNK
from tests.chaos.load import ALLOWED, Load, half_a_request
from tests.conftest import RedisServer, until

pytestmark = [pytest.mark.envoy, pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]

CLIENTS = 6
MINUTE = 60.0
MOST_GROWTH_MIB = 48.0
DESCRIPTORS_TO_SPARE = 6
"""Connections of Envoy, its health checks and xds come and go with what breaks."""

Fault = Callable[[Gateway, random.Random], Awaitable[None]]


async def kill_a_worker(gateway: Gateway, choose: random.Random) -> None:
    killed = choose.choice(gateway.worker_pids())
    os.kill(killed, signal.SIGKILL)
    await until(lambda: killed not in gateway.worker_pids(), what="the worker's end")
    await until(lambda: len(gateway.worker_pids()) == WORKERS, what="the worker's successor")
    await asyncio.sleep(1.0)


async def cut_the_line(gateway: Gateway, choose: random.Random) -> None:
    await choose.choice(gateway.lines).cut()
    await asyncio.sleep(choose.uniform(0.05, 0.3))


async def cut_amid_bytes(gateway: Gateway, choose: random.Random) -> None:
    """Connections break by themselves after some of their bytes."""
    for line in gateway.lines:
        line.cut_after = choose.choice((3_000, 100_000, 1_000_000))
    await choose.choice(gateway.lines).cut()
    await asyncio.sleep(0.7)
    for line in gateway.lines:
        line.cut_after = None


async def clients_leave(gateway: Gateway, choose: random.Random) -> None:
    await asyncio.gather(*(half_a_request(gateway.port, choose.choice((5_000, 400_000)), choose) for _ in range(20)))
    await asyncio.sleep(0.05)


async def restart_envoy(gateway: Gateway, choose: random.Random) -> None:
    gateway.kill_envoy()
    await asyncio.sleep(choose.uniform(0, 0.2))
    gateway.start_envoy()
    await until(gateway.answers, what="an answer of the Envoy that follows")
    await asyncio.sleep(0.5)


async def freeze_envoy(gateway: Gateway, choose: random.Random) -> None:
    envoy = gateway.processes["envoy"]
    envoy.send_signal(signal.SIGSTOP)
    await asyncio.sleep(choose.uniform(0.3, 0.8))
    envoy.send_signal(signal.SIGCONT)
    await asyncio.sleep(0.5)


async def fall_silent(gateway: Gateway, choose: random.Random) -> None:
    """Peers that vanish without a FIN: Envoy notices by its pings within 7 s, ext_proc by its own."""
    choose.choice(gateway.lines).fall_silent()
    await asyncio.sleep(1.0)


async def read_slowly(gateway: Gateway, choose: random.Random) -> None:
    """Answers crawl, those with a body that was written anew most of all."""
    for line in gateway.lines:
        line.bytes_a_chunk, line.seconds_a_chunk = 4_096, 0.01
    await choose.choice(gateway.lines).cut()
    await asyncio.sleep(1.0)
    for line in gateway.lines:
        line.bytes_a_chunk, line.seconds_a_chunk = CHUNK, 0.0


FAULTS: dict[str, Fault] = {
    "a worker is killed": kill_a_worker,
    "the line is cut": cut_the_line,
    "the line is cut amid a body": cut_amid_bytes,
    "clients leave amid a body": clients_leave,
    "Envoy is killed and started": restart_envoy,
    "Envoy stands still": freeze_envoy,
    "answers are read slowly": read_slowly,
}


# The reference transport has its turn in `make soak`, which has the time.
@pytest_asyncio.fixture(
    loop_scope="module", scope="module", params=["wire", pytest.param("grpcio", marks=pytest.mark.soak)]
)
async def gateway(
    request: pytest.FixtureRequest, shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("chaos")
    one = Gateway(shared_redis.url, folder, request.param)
    try:
        await one.start()
        yield one
    finally:
        await one.stop()


async def chaos(gateway: Gateway, faults: Iterable[Fault], seed: int) -> Load:
    """The faults, one after the other, under load, then peace. Nothing wrong was answered, and nothing is left."""
    choose, load = random.Random(seed), Load(gateway.port, seed)
    before = await warmed(gateway)
    asking = asyncio.create_task(load.run(CLIENTS))
    for fault in faults:
        await fault(gateway, choose)
    await peace(gateway)
    load.stopping = True
    await asking
    assert load.wrong == []
    assert load.outcomes.keys() <= {"200", *ALLOWED}, load.outcomes
    assert load.outcomes["200"] > 0, load.outcomes
    await nothing_left(gateway, before)
    return load


def for_a_while(fault: Fault, seconds: float) -> Iterator[Fault]:
    """The same fault until time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield fault


async def peace(gateway: Gateway) -> None:
    """What was held up on bad lines is let go."""
    for line in gateway.lines:
        await line.cut()
    await gateway.until_all_is_well()


async def warmed(gateway: Gateway) -> Held:
    """What is held without load, after some."""
    await Load(gateway.port, 99).run(CLIENTS, 1.0)

    async def idle() -> bool:
        return (await gateway.held()).streams == 0

    await until(idle, what="no open stream")
    return await gateway.held()


async def nothing_left(gateway: Gateway, before: Held) -> None:
    """Streams are closed, descriptors as many as before, memory about what it was."""
    most = before.descriptors + DESCRIPTORS_TO_SPARE

    async def few() -> bool:
        now = await gateway.held()
        return now.streams == 0 and now.descriptors <= most

    await until(few, deadline_seconds=70, what=f"no open stream and at most {most} descriptors")
    assert (await gateway.held()).resident_mib <= before.resident_mib + MOST_GROWTH_MIB


async def test_whatever_breaks_no_answer_is_wrong_and_nothing_is_left(gateway: Gateway) -> None:
    await chaos(gateway, [*FAULTS.values(), *random.Random(1).sample([*FAULTS.values()], 3)], seed=1)


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", FAULTS)
async def test_nothing_is_wrong_or_left_of_a_minute_in_which(gateway: Gateway, fault: str) -> None:
    load = await chaos(gateway, for_a_while(FAULTS[fault], MINUTE), seed=7)
    sys.stderr.write(f"{fault}: {dict(load.outcomes)}\n")


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_peers_that_vanish_are_let_go_by_both_sides(gateway: Gateway) -> None:
    """ext_proc asks who is silent for 30 s and lets go of who says nothing for 20 s more."""
    load = Load(gateway.port)
    asking = asyncio.create_task(load.run(CLIENTS))
    before = await gateway.held()
    for line in gateway.lines * 2:
        line.fall_silent()
        await asyncio.sleep(4)
    assert sum(line.vanished for line in gateway.lines) > 0
    await until(
        lambda: sum(line.vanished for line in gateway.lines) == 0, deadline_seconds=90, what="ext_proc letting go"
    )
    load.stopping = True
    await asking
    await gateway.until_all_is_well()
    assert load.wrong == []
    await nothing_left(gateway, before)

"""When ext_proc counts as away, and when as back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest
from prometheus_client import CollectorRegistry

from tests.conftest import until
from tests.ports import take_free_port
from tidegate.grpc_health import HEALTH, Health, health_handlers
from xds_server import picker_watch
from xds_server.picker_watch import BACK_SECONDS, PickerState, PickerWatch


def test_one_round_without_an_answer_is_away_and_a_second_of_answers_is_back() -> None:
    state = PickerState()
    assert [state.heard(True, 0.0), state.heard(False, 0.2), state.away] == [False, True, True]
    assert [state.heard(True, 0.4), state.heard(False, 0.6), state.heard(True, 0.8)] == [False] * 3
    assert not state.heard(True, 0.8 + BACK_SECONDS - 0.01)
    assert state.heard(True, 0.8 + BACK_SECONDS)
    assert not state.away


class Instance:
    """A gRPC server with health alone."""

    def __init__(self, ip: str, port: int) -> None:
        self.address, self.health = f"{ip}:{port}", Health()

    async def start(self) -> None:
        self.server = grpc.aio.server()
        handlers = {path.rpartition("/")[2]: handler for path, handler in health_handlers(self.health).items()}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HEALTH, handlers),))
        self.server.add_insecure_port(self.address)
        await self.server.start()

    async def stop(self) -> None:
        await self.server.stop(0)


@pytest.fixture(autouse=True)
def slow_picker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow to answer, and not away: that is refused connections and NOT_SERVING."""
    monkeypatch.setattr(picker_watch, "PATIENCE_SECONDS", 60.0)


@pytest.fixture
async def watched(free_port: Callable[[], int]):
    """Two instances behind one name, the watch, and the changes that it told."""
    port, told = take_free_port(), list[bool]()
    instances = [Instance(ip, port) for ip in ("127.0.0.1", "127.0.0.2")]
    for one in instances:
        await one.start()

    async def lookup(_: str) -> list[str]:
        return ["127.0.0.1", "127.0.0.2"]

    watch = PickerWatch("pickers", port, CollectorRegistry(), lookup)

    async def changed() -> None:
        told.append(watch.away)

    task = asyncio.create_task(watch.run(changed))
    yield instances, watch, told
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for one in instances:
        await one.stop()


async def test_one_of_two_instances_is_enough_and_none_is_away(watched) -> None:
    (one, two), watch, told = watched
    await one.stop()
    two.health.drain()
    await until(lambda: watch.away, what="nobody serving")
    await one.start()
    await until(lambda: not watch.away, what="one serving again")
    await until(lambda: told == [True, False], what="both changes told")

"""A local cluster with its real Prometheus and Alertmanager: panels have data, and alerts act and are undone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import httpx
import pytest

from tests.conftest import wait_until
from tests.deploy.queries import asked
from tests.deploy.tools import need_both
from tests.deploy.world import FAILING, FULL, LONG, SPLIT, World, running
from tests.up.cluster import Load, chat

SHED = {("shed", "hold", FULL), ("shed", "retries", FULL)}
CUT = {("cut", "retries", FAILING)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    need_both()
    with running(tmp_path_factory.mktemp("monitored")) as one:
        yield one


def users(number: int) -> dict[str, object]:
    return chat(SPLIT, user=f"user {number}")


@pytest.mark.envoy
@pytest.mark.redis
def test_every_panel_returns_data_under_load(world: World) -> None:
    missing, weights = list(asked()), cycle((300, 600))

    def all_there() -> bool:
        # Envoy is told something now and then, or there would be no time to an ACK.
        world.up.redis("HSET", "tidegate:weight:stable", world.engines["stable"], str(next(weights)))
        missing[:] = [one for one in missing if not world.prometheus.shows(one.filled)]
        return not missing

    with Load(world.up.gateway, users(1), threads=1), Load(world.up.gateway, users(4), threads=1):
        try:
            wait_until(all_there, deadline_seconds=120, what="data in every panel")
        except AssertionError as exc:
            raise AssertionError(f"no data: {[one.id for one in missing]}") from exc


@pytest.mark.envoy
@pytest.mark.redis
def test_alerts_act_at_envoy_and_are_undone_when_the_cause_is_gone(world: World) -> None:
    """A queue that waits, and engines that fail, at once; then neither."""
    world.up.redis("HSET", "tidegate:tune", "heal.retries_off_at", "1", "heal.reduce_at", "1")  # alerts alone act
    wait_until(lambda: (world.retries(FULL), world.retries(FAILING)) == (2, 2), what="retries as the file says")
    world.fault(FAILING, "error")
    with Load(world.up.gateway, LONG, threads=16), Load(world.up.gateway, chat(FAILING), threads=2):
        fired = world.wait("queue alert", lambda: world.fires("TidegateQueueLatencyHigh", FULL))
        world.wait("its acts in status", lambda: world.acts() >= SHED, fired)
        world.wait("its cut of retries at Envoy", lambda: world.retries(FULL) == 0, fired)
        world.wait("requests of low priority held", lambda: held(world.low()), fired)
        world.wait("failure alert", lambda: world.fires("TidegateFailureRateHigh", FAILING))
        world.wait("cut in status", lambda: world.acts() >= CUT)
        world.wait("retries of the failing cluster cut at Envoy", lambda: world.retries(FAILING) == 0)
        world.fault(FAILING, "none")
    ended = world.wait("no alert", lambda: not world.fires("TidegateQueueLatencyHigh", FULL))
    world.wait("acts undone", lambda: not world.acts() & (SHED | CUT), ended)
    world.wait("retries restored", lambda: (world.retries(FULL), world.retries(FAILING)) == (2, 2), ended)
    world.wait("requests of low priority served", lambda: world.low().status_code == 200, ended)
    print({what: round(seconds, 1) for what, seconds in world.took.items()})  # noqa: T201 - figures for who runs it with -s


def held(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.headers.get("x-tidegate-reason")) == (429, "held")

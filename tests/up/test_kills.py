"""kill -9 of any one part under constant load: `tidegate up` replaces it, and traffic is harmed as little as can be."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import accepts, wait_until
from tests.up.cluster import Load, Up, chat, parent, start_up, stop_up


def absent(up: Up, service: str) -> bool:
    return not up.report()["services"][service]


def recovered(up: Up, name: str, old_pid: int) -> Callable[[], bool]:
    return lambda: up.pid(name) not in {None, old_pid}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = start_up(tmp_path_factory.mktemp("kills"), "--time-scale", "50")
    try:
        wait_until(lambda: serving_whole(up) and up.answers(chat("phi-3")), what="every replica serving")
        yield up
    finally:
        stop_up(up)


@pytest.mark.envoy
@pytest.mark.parametrize("name", ["agent", "xds", "redis"])
def test_a_killed_control_part_comes_back_and_no_request_notices(cluster: Up, name: str) -> None:
    with Load(cluster.gateway, chat("phi-3")) as load:
        wait_until(lambda: load.statuses["200"] > 20, what="load running")
        old = cluster.kill(name)
        wait_until(recovered(cluster, name, old), what=f"{name} replaced")
        wait_until(lambda: serving_whole(cluster), what="every part present")
        moment = time.monotonic()
        wait_until(lambda: load.good_since(moment) > 20, what="load going on")
    assert set(load.statuses) == {"200"}


@pytest.mark.envoy
def test_a_killed_ext_proc_comes_back(cluster: Up) -> None:
    with Load(cluster.gateway, chat("phi-3")) as load:
        wait_until(lambda: load.statuses["200"] > 20, what="load running")
        old = cluster.kill("ext_proc")
        wait_until(recovered(cluster, "ext_proc", old), what="ext_proc replaced")
        moment = time.monotonic()
        wait_until(lambda: load.good_since(moment) > 20, what="requests served")
        serves_on(load)
    assert set(load.statuses) <= {"200", "503"}


@pytest.mark.envoy
def test_a_killed_fork_server_comes_back_with_all_that_it_forked(cluster: Up) -> None:
    old = {name: pid for name, pid in cluster.ready["pids"].items() if name not in {"redis", "envoy"}}
    server = parent(old["ext_proc"])
    with Load(cluster.gateway, chat("phi-3")) as load:
        wait_until(lambda: load.statuses["200"] > 20, what="load running")
        os.kill(server, signal.SIGKILL)
        for name, pid in old.items():
            wait_until(recovered(cluster, name, pid), what=f"{name} replaced")
        # Those that were killed are told of for some seconds, as present and as ready.
        engines = [int(engine["url"].rpartition(":")[2]) for engine in cluster.ready["engines"]]
        wait_until(lambda: all(map(accepts, engines)), what="every engine listening")
        moment = time.monotonic()
        wait_until(lambda: load.good_since(moment) > 20, what="requests served")
        wait_until(lambda: serving_whole(cluster), what="every part present")
        serves_on(load)
    assert {parent(pid) for name, pid in cluster.ready["pids"].items() if name in old} != {server}
    assert set(load.statuses) <= {"200", "503"}


@pytest.mark.envoy
def test_a_killed_engine_costs_no_more_than_what_it_was_running(cluster: Up) -> None:
    with Load(cluster.gateway, chat("phi-3"), threads=6) as load:
        wait_until(lambda: load.statuses["200"] > 20, what="load running")
        old = cluster.kill("engine-phi-3-1")
        wait_until(recovered(cluster, "engine-phi-3-1", old), what="it replaced")
        wait_until(lambda: serving_whole(cluster), what="every replica ready")
    failed = sum(count for status, count in load.statuses.items() if status != "200")
    assert failed <= load.threads


def serves_on(load: Load) -> None:
    """From here on nothing but 200."""
    moment = time.monotonic()
    wait_until(lambda: load.good_since(moment) > 50, what="load going on")
    assert load.bad_since(moment) == []


def serving_whole(up: Up) -> bool:
    status = up.report()
    replicas = [e for c in status["clusters"] for e in c["endpoints"]]
    return (
        status["redis"]["reachable"]
        and all(status["services"][name] for name in ("agent", "controller", "xds", "ext_proc"))
        and len(replicas) == 6
        and all(e["status"] in {"ready", "idle"} for e in replicas)
        and bool(status["envoys"])
    )


@pytest.mark.envoy
def test_each_absent_part_shows_in_status(own_cluster: Callable[..., Up]) -> None:
    up = own_cluster("--no-restart", "--time-scale", "50")
    wait_until(lambda: serving_whole(up), what="everything present")
    up.kill("engine-sdxl-1")
    gone = next(e["address"] for e in up.ready["engines"] if e["name"] == "engine-sdxl-1")
    wait_until(lambda: _status_of(up, gone) == "unreachable", what="the dead engine being unreachable")
    killed = ("agent", "ext_proc", "outcomes")
    for name in killed:
        up.kill(name)
    wait_until(lambda: all(absent(up, name) for name in killed), what=f"{killed} being absent")
    wait_until(lambda: not absent(up, "xds") and not absent(up, "controller"), what="the others being present")
    up.kill("xds")
    wait_until(lambda: absent(up, "xds"), what="xds being absent")
    wait_until(lambda: absent(up, "controller"), what="the controller, which lives in xds, being absent")
    wait_until(lambda: not up.report()["envoys"], what="nobody serving Envoy")
    said = up.status()
    assert said["envoys"] == []
    assert said["services"] == {"agent": [], "controller": [], "xds": [], "ext_proc": [], "outcomes": []}
    up.kill("redis")
    wait_until(lambda: not up.report()["redis"]["reachable"], what="Redis being unreachable")
    assert up.status()["redis"]["error"]


def _status_of(up: Up, address: str) -> str:
    return next(e["status"] for c in up.report()["clusters"] for e in c["endpoints"] if e["address"] == address)

"""SIGTERM to `tidegate up`: nothing is left."""

from __future__ import annotations

import signal
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.conftest import accepts, wait_until
from tests.processes import alive
from tests.up.cluster import Load, Up, chat, parent
from tidegate.cli.up.plan import GATEWAY_PORT, REDIS_PORT


def _ports(ready: dict) -> list[int]:
    """All of its own; those that `tidegate up` wants first may be another test's as soon as it ended."""
    urls = [ready["gateway"], ready["envoy_admin"], ready["redis"], *ready["metrics"].values()]
    urls += [f"//{ready['xds']}", f"//{ready['ext_proc']}", *(e["url"] for e in ready["engines"])]
    return [port for url in urls if (port := urlsplit(url).port) not in {GATEWAY_PORT, REDIS_PORT}]


@pytest.mark.envoy
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_ends_every_child_and_frees_every_port(
    own_cluster: Callable[..., Up], signum: signal.Signals
) -> None:
    up = own_cluster("--time-scale", "50", "--replicas", "1")
    ready = up.ready
    assert len(ready["pids"]) == 9
    pids = {*ready["pids"].values(), parent(ready["pids"]["xds"])}
    with Load(up.gateway, chat("phi-3", max_tokens=200)) as load:
        wait_until(lambda: load.statuses["200"] > 5, what="load running")
        up.process.send_signal(signum)
        # That the end comes within 5 s is held by test_processes, on children that need no CPU to end.
        assert up.process.wait(timeout=60) == 0
    assert [pid for pid in pids if alive(pid)] == []
    assert [port for port in _ports(ready) if accepts(port)] == []
    assert not up.ready_file.exists()


@pytest.mark.envoy
def test_children_end_when_tidegate_up_is_killed(own_cluster: Callable[..., Up]) -> None:
    up = own_cluster("--time-scale", "50", "--replicas", "1")
    pids = {*up.ready["pids"].values(), parent(up.ready["pids"]["xds"])}
    up.process.kill()
    up.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in pids), what="every child ending by itself")

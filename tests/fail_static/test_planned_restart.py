"""Of two ext_procs one after the other is restarted as planned, under load, and no request notices."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.conftest import RedisServer, until
from tests.fail_static.test_several_servers import asked, go_on
from tests.ports import take_free_row
from tests.xds.conftest import Gateway, cluster, endpoint, engines, gateway
from tidegate.domain.topology import LbPolicy
from tidegate.store.ports import ClusterDecision
from tidegate.store.redis import RedisStore
from xds_server.resources.clusters import ext_proc_cluster

__all__ = ["engines", "gateway"]

pytestmark = [pytest.mark.envoy, pytest.mark.redis]

IPS = ("127.0.0.1", "127.0.0.2")
BODY = {"model": "chat", "messages": [{"role": "user", "content": "Hello"}]}


@dataclass
class Pickers:
    """A process of `tidegate ext-proc` at each of two addresses, with as many workers each.

    Envoy asks the workers' own ports, the first of which is `port`; one that has none listens there itself.
    """

    folder: Path
    redis_url: str
    port: int
    workers: int

    def start(self, ip: str) -> forked.Forked:
        listen = f"{ip}:{self.port - 1 if self.workers > 1 else self.port}"
        flags = ["--redis-url", self.redis_url, "--listen", listen, "--workers", str(self.workers)]
        config = str(self.folder / "tidegate.yaml")
        return forked.start("ext-proc", "--config", config, *flags, log=self.folder / f"{ip}.log")


@pytest.fixture(params=[1, 2], ids=["one process each", "two workers each"])
async def pickers(
    request: pytest.FixtureRequest,
    gateway: Gateway,
    own_redis: RedisServer,
    tmp_path: Path,
    engines: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Pickers:
    def both(desired: Any) -> Any:
        """As a DNS name with two addresses gives it."""
        message = ext_proc_cluster(desired)
        [locality] = message.load_assignment.endpoints
        for one in list(locality.lb_endpoints):
            locality.lb_endpoints.add().CopyFrom(one)
            locality.lb_endpoints[-1].endpoint.address.socket_address.address = IPS[1]
        return message

    monkeypatch.setattr("xds_server.resources.ext_proc_cluster", both)
    await gateway.processor.stop()
    one = Pickers(tmp_path, own_redis.url, take_free_row(request.param + 1) + 1, request.param)
    gateway.processor.port = one.port
    gateway.settings["ext_proc_last_port"] = one.port + one.workers - 1
    [engine] = await engines(1)
    clusters = [{"name": "chat", "models": ["chat"], "endpoints": [{"address": engine.address}]}]
    (tmp_path / "tidegate.yaml").write_text(json.dumps({"clusters": clusters}))
    store = RedisStore(own_redis.url, timeout_seconds=60)
    await store.write_decisions([ClusterDecision("chat", {engine.address: 500}, {})], {}, [])
    await store.close()
    return one


@pytest.fixture
async def running(pickers: Pickers) -> AsyncIterator[dict[str, forked.Forked]]:
    """By address."""
    processes = {ip: pickers.start(ip) for ip in IPS}
    yield processes
    for process in processes.values():
        process.terminate()
    for process in processes.values():
        process.wait(timeout=60)


async def test_ext_procs_that_are_restarted_one_by_one_cost_no_request(
    gateway: Gateway, pickers: Pickers, running: dict[str, forked.Forked], engines: Any
) -> None:
    [engine] = await engines(0)  # the one that is there
    await gateway.serve(cluster("chat", endpoint(engine, 1), lb=LbPolicy.PICK))
    await until(lambda: _answered(gateway), deadline_seconds=90, what="an ext_proc answering")
    async with asked(f"http://127.0.0.1:{gateway.port}/v1/chat/completions", BODY) as (statuses, _):
        for ip in IPS:
            await _all_asked(gateway, pickers)
            running[ip].send_signal(signal.SIGTERM)
            await until(lambda ip=ip: running[ip].poll() is not None, what="the ext_proc ending")  # type: ignore[misc]
            assert running[ip].returncode == 0
            await go_on(statuses, 100)
            running[ip] = pickers.start(ip)
    assert set(statuses) == {"200"}


async def _answered(gateway: Gateway) -> bool:
    return (await gateway.post(BODY)).status_code == 200


async def _all_asked(gateway: Gateway, pickers: Pickers) -> None:
    """Return once Envoy sends requests to every port of every ext_proc."""
    before: dict[str, int] = {}

    async def all_asked() -> bool:
        nonlocal before
        counts = await _asked_so_far(gateway)
        if counts.keys() != before.keys() or len(counts) < len(IPS) * pickers.workers:
            before = counts
            return False
        return all(counts[at] > before[at] for at in counts)

    await until(all_asked, deadline_seconds=120, what="every ext_proc being asked")


async def _asked_so_far(gateway: Gateway) -> dict[str, int]:
    """By address, how many requests Envoy sent there; its health checks do not count."""
    said = (await gateway.admin("/clusters?format=json")).json()
    [hosts] = [one["host_statuses"] for one in said["cluster_statuses"] if one["name"] == "tidegate_ext_proc"]
    return {
        "{address}:{port_value}".format(**host["address"]["socket_address"]): int(stat.get("value", 0))
        for host in hosts
        for stat in host["stats"]
        if stat["name"] == "rq_total"
    }

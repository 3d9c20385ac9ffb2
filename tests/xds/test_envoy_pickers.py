"""A real Envoy before two ext_procs, of which one dies or drains."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import until
from tests.xds.conftest import Gateway, cluster, endpoint
from tests.xds.stand_ins import Processor
from xds_server.resources.clusters import ext_proc_cluster

pytestmark = pytest.mark.envoy


@pytest.fixture
async def second(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A second ext_proc on the same port, as a DNS name with two addresses gives it."""
    other = Processor(port=gateway.processor.port, ip="127.0.0.2")
    await other.start()

    def both(desired: Any) -> Any:
        message = ext_proc_cluster(desired)
        [locality] = message.load_assignment.endpoints
        locality.lb_endpoints.add().CopyFrom(locality.lb_endpoints[0])
        locality.lb_endpoints[1].endpoint.address.socket_address.address = other.ip
        return message

    monkeypatch.setattr("xds_server.resources.ext_proc_cluster", both)
    yield other
    await other.stop()


async def test_one_dead_ext_proc_of_two_costs_one_request_at_most(
    gateway: Gateway, engines: Any, second: Processor
) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    both_asked = [gateway.processor.servicer, second.servicer]
    await until(lambda: _asked(gateway, both_asked), what="both ext_procs being asked")
    await gateway.processor.stop()
    statuses = [(await gateway.post({"model": "chat"})).status_code for _ in range(40)]
    assert statuses.count(200) >= len(statuses) - 1


async def test_a_draining_ext_proc_is_asked_no_more_and_costs_no_request(
    gateway: Gateway, engines: Any, second: Processor
) -> None:
    [engine] = await engines(1)
    await gateway.serve(cluster("chat", endpoint(engine, 1)))
    second.health.drain()
    stat = "cluster.tidegate_ext_proc.membership_healthy"

    async def seen() -> bool:
        return await gateway.stat(stat) == 1

    await until(seen, what="Envoy seeing it drain")
    before = len(second.servicer.attributes)
    assert {(await gateway.post({"model": "chat"})).status_code for _ in range(20)} == {200}
    assert len(second.servicer.attributes) == before


async def _asked(gateway: Gateway, servicers: list[Any]) -> bool:
    assert (await gateway.post({"model": "chat"})).status_code == 200
    return all(one.attributes for one in servicers)

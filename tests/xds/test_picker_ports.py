"""Workers of ext_proc with a port each: Envoy is told of all, and one that answers is enough."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from prometheus_client import CollectorRegistry

from tests.conftest import until
from tests.ports import take_free_row
from tests.xds.test_picker_watch import Instance
from tests.xds.worlds import DESIRED
from xds_server.picker_watch import PickerWatch
from xds_server.resources import build
from xds_server.resources.names import EXT_PROC_CLUSTER
from xds_server.type_urls import CLUSTER


def test_each_port_is_an_endpoint() -> None:
    desired = replace(DESIRED, ext_proc_port=18002, ext_proc_last_port=18005)
    [locality] = build(desired)[CLUSTER][EXT_PROC_CLUSTER].load_assignment.endpoints
    addresses = [one.endpoint.address.socket_address for one in locality.lb_endpoints]
    assert [(one.address, one.port_value) for one in addresses] == [("ext-proc", port) for port in range(18002, 18006)]


async def test_one_worker_of_two_is_enough_and_none_is_away() -> None:
    port = take_free_row(2)
    one, two = Instance("127.0.0.1", port), Instance("127.0.0.1", port + 1)
    watch = PickerWatch("127.0.0.1", port, CollectorRegistry(), last_port=port + 1)
    changed = asyncio.Event()

    async def told() -> None:
        changed.set()

    await two.start()
    task = asyncio.create_task(watch.run(told))
    try:
        await until(lambda: len(watch._channels) == 2 or None, what="both ports being asked")
        await until(lambda: not watch.away, what="the one that answers")
        await one.start()
        await two.stop()
        await until(lambda: not watch.away, what="the other")
        await one.stop()
        await until(lambda: watch.away, what="nobody serving")
        assert changed.is_set()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

"""The service as a whole, over a store in memory."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import until
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Topology
from tidegate.runtime import now_ms
from tidegate.settings.config_file import FileConfig, Gateway, parse
from tidegate.settings.services import XdsSettings
from tidegate.store.memory import MemoryStore
from tidegate.store.ports import Store
from xds_server.app import gateway_of, instance_name, serve, serve_on
from xds_server.resolver import Resolver

FILE = parse(
    """
gateway: {listen: "127.0.0.1:10000"}
clusters:
  - {name: chat, models: [phi-3], endpoints: [{address: "127.0.0.1:8000"}]}
""",
    "test.yaml",
)
SETTINGS = XdsSettings(listen="127.0.0.1:0", tick_ms=20)


@asynccontextmanager
async def running(store: Store, companions: Any = ()) -> AsyncIterator[None]:
    task = asyncio.create_task(serve_on(store, FILE, SETTINGS, companions))
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, 60)


async def info_of(store: MemoryStore) -> dict[str, Any]:
    return (await store.present()).get("xds", {}).get(instance_name(), {})


async def test_it_says_that_it_lives_and_what_it_serves_and_leaves_at_sigterm() -> None:
    store, info = MemoryStore(now_ms), dict[str, Any]()

    async def serves() -> bool:
        info.update(await info_of(store))
        return info.get("gateway") == "127.0.0.1:10000"

    async with running(store):
        await until(serves, what="presence of what is served")
    assert info["clusters"] == [{"name": "chat", "models": ["phi-3"], "lb": "pick", "addresses": ["127.0.0.1:8000"]}]
    assert (info["envoys"], info["refused"]) == ([], {})
    assert await info_of(store) == {}


async def test_a_companion_shares_store_and_file_and_is_restarted_when_it_dies() -> None:
    store, seen = MemoryStore(now_ms), []

    async def companion(given: Store, file: FileConfig, _registry: object) -> None:
        seen.append((given is store, file is FILE))
        raise RuntimeError("dies")

    async with running(store, [("companion", companion)]):
        await until(lambda: len(seen) >= 2, what="the companion starts again")
    assert set(seen) == {(True, True)}


async def test_a_lost_store_does_not_end_the_service() -> None:
    store = MemoryStore(now_ms)
    store.available = False
    async with running(store):
        store.available = True

        async def lives() -> bool:
            return bool(await info_of(store))

        await until(lives, what="presence once the store is back")


async def test_without_a_file_it_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="--config"):
        await serve(SETTINGS)


def listening(text: str) -> FileConfig:
    return replace(FILE, gateway=Gateway(listen=text))


async def test_a_flag_overrides_where_the_gateway_listens() -> None:
    settings = replace(SETTINGS, gateway_listen="127.0.0.1:7777")
    gateway = await gateway_of(FILE, settings, Resolver())
    assert (gateway.listen_host, gateway.listen_port) == ("127.0.0.1", 7777)


async def test_a_listener_without_a_port_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.listen"):
        await gateway_of(listening("127.0.0.1:0"), SETTINGS, Resolver())


async def test_a_listener_at_an_unknown_host_is_a_fault_of_the_configuration() -> None:
    async def nowhere(_host: str) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(ConfigError, match="no address"):
        await gateway_of(listening("nowhere:1"), SETTINGS, Resolver(nowhere))


async def test_the_name_of_ext_proc_s_cluster_is_a_fault_of_the_configuration() -> None:
    [chat] = FILE.topology.clusters
    file = replace(FILE, topology=Topology((replace(chat, name="tidegate_ext_proc"),)))
    with pytest.raises(ConfigError, match="tidegate_ext_proc"):
        await gateway_of(file, SETTINGS, Resolver())

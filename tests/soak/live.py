"""Real services around a real Envoy: processes of `tidegate xds` on a real Redis, and an ext_proc that obeys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests import forked
from tests.conftest import EnvoyProcess, RedisServer, accepts, until
from tests.ports import take_free_port
from tests.xds.stand_ins import Processor
from xds_server.bootstrap import bootstrap_yaml


@dataclass
class Live:
    """`start` writes the file and starts the servers, then an Envoy that may ask each of them."""

    redis: RedisServer
    folder: Path
    start_envoy: Callable[[str], EnvoyProcess]
    processor: Processor = field(default_factory=Processor)
    port: int = field(default_factory=take_free_port)
    admin_port: int = field(default_factory=take_free_port)
    servers: dict[str, forked.Forked] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, clusters: Sequence[Mapping[str, Any]], xds_servers: int = 1) -> None:
        await self.processor.start()
        document = {"gateway": {"listen": f"127.0.0.1:{self.port}", "expose_routing": True}, "clusters": clusters}
        (self.folder / "tidegate.yaml").write_text(json.dumps(document))
        for _ in range(xds_servers):
            self.start_xds(f"127.0.0.1:{take_free_port()}")
        ports = [int(listen.split(":")[1]) for listen in self.servers]
        await until(lambda: all(map(accepts, ports)), deadline_seconds=60, what="xds listening")
        admin = f"127.0.0.1:{self.admin_port}"
        self.start_envoy(bootstrap_yaml(",".join(self.servers), admin, node_id="live"))
        await until(lambda: accepts(self.port), deadline_seconds=60, what="Envoy listening")

    def start_xds(self, listen: str) -> None:
        """A server at this address."""
        flags = ["--redis-url", self.redis.url, "--ext-proc", f"127.0.0.1:{self.processor.port}", "--listen", listen]
        config, log = str(self.folder / "tidegate.yaml"), self.folder / f"xds-{listen}.log"
        self.servers[listen] = forked.start("xds", "--config", config, *flags, log=log)

    def kill_xds(self, listen: str) -> None:
        """kill -9 the server at this address."""
        process = self.servers.pop(listen)
        process.kill()
        process.wait()

    async def stop(self) -> None:
        for listen in list(self.servers):
            self.kill_xds(listen)
        await self.processor.stop()

    async def endpoints_of_envoy(self) -> dict[str, set[str]]:
        """By cluster, the addresses that Envoy knows."""
        async with httpx.AsyncClient() as client:
            said = (await client.get(f"http://127.0.0.1:{self.admin_port}/clusters?format=json")).json()
        return {
            one["name"]: {_address(host["address"]["socket_address"]) for host in one.get("host_statuses", [])}
            for one in said["cluster_statuses"]
        }


def _address(socket: Mapping[str, Any]) -> str:
    return f"{socket['address']}:{socket['port_value']}"

"""`tidegate up --prometheus` as tests of the whole loop have it: nothing in it is a stand-in but the engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import wait_until
from tests.deploy.monitored import Prometheus
from tests.deploy.quick import quick_files
from tests.ports import take_free_port
from tests.up.cluster import Up, chat, start_up, stop_up
from tests.up.engines import Engines

FULL, FAILING, SPLIT = "full", "failing", "split"
# A few such answers fill the engine's KV cache, and each takes a second.
LONG = chat(FULL, max_tokens=400)
SIZES = ("--kv-blocks", "128", "--max-model-len", "1024", "--time-scale", "12")
RULES = [
    {
        "name": "shed",
        "alert": "TidegateQueueLatencyHigh",
        "hold": {"cluster": "$cluster", "less_urgent_than": "normal"},
        "retries": {"cluster": "$cluster", "to": 0},
    },
    {"name": "cut", "alert": "TidegateFailureRateHigh", "retries": {"cluster": "$cluster", "to": 0}},
]


@dataclass
class World:
    """A local cluster, its Prometheus and Alertmanager, and the engine of each cluster."""

    up: Up
    prometheus: Prometheus
    engines: dict[str, str]
    took: dict[str, float] = field(default_factory=dict)

    def fires(self, alert: str, cluster: str) -> bool:
        """Whether Prometheus says so."""
        wanted = {"alertname": alert, "cluster": cluster}
        found = [one for one in self.prometheus.alerts() if wanted.items() <= one["labels"].items()]
        return any(one["state"] == "firing" for one in found)

    def acts(self) -> set[tuple[str, str, str]]:
        """(rule, act, target) of what `status` reports as in force."""
        return {(one["rule"], one["kind"], one["target"]) for one in self.up.report()["actions"]}

    def retries(self, cluster: str) -> int:
        """Of the cluster's routes, from Envoy's own config dump."""
        admin = self.up.ready["envoy_admin"]
        dump = httpx.get(f"{admin}/config_dump?resource=dynamic_route_configs", timeout=60).json()
        (found,) = {retries for name, retries in _routes(dump) if name == cluster}
        return found

    def low(self) -> httpx.Response:
        """What a request of low priority for FULL is answered."""
        headers = {"x-tidegate-priority": "low"}
        url = f"{self.up.gateway}/v1/chat/completions"
        return httpx.post(url, json=chat(FULL), headers=headers, timeout=60)

    def fault(self, cluster: str, kind: str) -> None:
        """Let the cluster's engine answer so from here on."""
        httpx.post(f"http://{self.engines[cluster]}/sim/fault", json={"fault": kind}, timeout=60).raise_for_status()

    def wait(self, what: str, condition: Callable[[], object], since: float | None = None) -> float:
        """Wait for it and note how long it took from `since`, or from here; the moment when it held."""
        began = time.monotonic() if since is None else since
        wait_until(condition, deadline_seconds=120, what=what)
        self.took[what] = time.monotonic() - began
        return time.monotonic()


def _routes(dump: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """(cluster, retries) of every route to one cluster."""
    for config in dump["configs"]:
        for host in config["route_config"]["virtual_hosts"]:
            for action in (route["route"] for route in host["routes"] if "cluster" in route.get("route", {})):
                if "retry_policy" in action:
                    yield action["cluster"], action["retry_policy"].get("num_retries", 1)


@contextmanager
def running(folder: Path) -> Iterator[World]:
    """A world from its start to its end, with the shipped files made quick."""
    engines = Engines()
    addresses = {name: f"127.0.0.1:{take_free_port()}" for name in (FULL, FAILING, "stable")}
    try:
        for name, address in addresses.items():
            sizes = SIZES if name == FULL else ("--time-scale", "10")
            engines.start(address, "--model", name, "--model", SPLIT, *sizes)
        config = _config({**addresses, "canary": addresses["stable"]})
        up = start_up(folder, "--prometheus", "--monitoring-files", str(quick_files(folder)), config=config)
        try:
            with Prometheus(up.ready["prometheus"]) as prometheus:
                yield World(up, prometheus, addresses)
        finally:
            stop_up(up)
    finally:
        engines.stop()


def _config(addresses: dict[str, str]) -> dict[str, Any]:
    versions = ("stable", "canary")
    return {
        "redis": {"url": "redis://127.0.0.1:0/0"},
        "gateway": {"listen": "127.0.0.1:0"},
        "clusters": [
            {"name": name, "models": [] if name in versions else [name], "endpoints": [{"address": address}]}
            for name, address in addresses.items()
        ],
        "splits": {SPLIT: {"stable": 500, "canary": 500}},
        "slos": {SPLIT: {"ttfb_p95_ms": 1000, "error_rate": 0.01, "availability": 0.99}},
        "actions": {"rules": RULES},
    }

"""A `weighted` cluster of two replicas behind the gateway, and what Envoy does with them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from tests.conftest import wait_until
from tests.up.cluster import Up, chat

CLUSTER = "pair"
AT_ONCE = 8


@dataclass
class Pair:
    """A `weighted` cluster of two replicas behind the gateway."""

    up: Up
    one: str
    two: str

    def shares(self, requests: int) -> Counter[str]:
        """Which replica answered each of so many requests, a few of them at once: Envoy takes turns all the same."""
        url = f"{self.up.gateway}/v1/chat/completions"
        with httpx.Client(timeout=60) as client, ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: client.post(url, json=chat("m")), range(requests)))
        assert {a.status_code for a in answers} == {200}
        return Counter(a.headers["x-sim-engine"] for a in answers)

    def pins(self) -> dict[str, bool]:
        return {e["address"]: e["pinned"] for e in self.up.report()["clusters"][0]["endpoints"]}

    def effective(self, address: str) -> str:
        return self.up.redis("HGET", f"tidegate:effective:{CLUSTER}", address)

    def envoy(self) -> str:
        """Envoy's own list of clusters, as text."""
        return httpx.get(f"{self.up.ready['envoy_admin']}/clusters", timeout=60).text

    def automatic_at_once(self) -> None:
        """Automatic weights are equal, whatever the load that a busy machine gives one of the two, and within a second."""
        values = ("weight.policy", "static", "weight.ramp_seconds", "1")
        self.up.redis("HSET", f"tidegate:tune:{CLUSTER}", *values)

    def forget_orders(self) -> None:
        """Delete every key of an operator, and wait until nobody goes by one."""
        self.up.redis("DEL", *(f"tidegate:{kind}:{CLUSTER}" for kind in ("weight", "drain", "tune")))
        wait_until(lambda: not any(self.pins().values()) and not self.up.report()["rejected"], what="no order in force")
        wait_until(lambda: "draining" not in self.envoy(), what="no drain at Envoy")
        wait_until(lambda: not any(self.logged_last().values()), what="no order that the log does not tell the end of")

    def logged_last(self) -> dict[str, str]:
        """What the last event of each order's key says that it holds."""
        orders = tuple(f"{kind}:{CLUSTER} " for kind in ("weight", "drain", "tune"))
        found = self.up.ask(lambda store: store.events(1_000))
        return {event.what: event.after for event in found if event.what.startswith(orders)}

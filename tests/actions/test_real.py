"""Acts in a whole local cluster: real Redis, Envoy, ext_proc, controller and hooks, told as Alertmanager tells."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.conftest import wait_until
from tests.ports import take_free_port
from tests.up.cluster import Up, chat, start_up, stop_up
from tests.up.engines import Engines
from tidegate.store.ports import Event

CLUSTER, OTHER, SPLIT = "pair", "other", "both"
PLAIN = chat("m")
RULES = [
    {"name": "cut", "alert": "Failing", "retries": {"cluster": "$cluster"}},
    {"name": "slow", "alert": "Slow", "drain": {"cluster": "$cluster", "replica": "$replica"}},
    {"name": "more", "alert": "Busy", "scale": {"cluster": "$cluster", "by": 2}},
    {"name": "back", "alert": "Canary", "split": {"model": SPLIT, "parts": {CLUSTER: 1000, OTHER: 0}}},
    {"name": "release", "annotation": "release", "hold": {"classes": "batch", "less_urgent_than": "normal"}},
]


@dataclass
class World:
    """A local cluster of two replicas, and who tells its hooks."""

    up: Up
    replica: str
    client: httpx.Client

    def tell(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self.client.post(f"{self.up.ready['hooks'].removesuffix('/hooks')}/hooks/{path}", json=body)

    def alert(self, name: str, status: str = "firing", **labels: str) -> int:
        one = {"status": status, "labels": {"alertname": name, "cluster": CLUSTER, **labels}}
        return self.tell("alertmanager", {"version": "4", "alerts": [one]}).status_code

    def retries(self) -> set[int | None]:
        """`num_retries` of every route to the cluster, in Envoy's configuration dump; None where it has no policy."""
        dump = self.client.get(f"{self.up.ready['envoy_admin']}/config_dump").json()
        routes = [one for one in _mappings(dump) if one.get("cluster") == CLUSTER and "timeout" in one]
        return {one["retry_policy"].get("num_retries") if "retry_policy" in one else None for one in routes}

    def sent(self, cluster: str) -> int:
        """Requests that Envoy has sent to a cluster."""
        page = self.client.get(
            f"{self.up.ready['envoy_admin']}/stats?filter=^cluster.{cluster}.upstream_rq_total$"
        ).text
        return int(page.rpartition(":")[2])

    def target(self) -> tuple[int, str]:
        """The cluster's replica target and its reason, as Redis has them; (0, "") before there is one."""
        found = self.up.redis("HMGET", f"tidegate:scale:{CLUSTER}", "desired", "reason").split()
        return (int(found[0]), found[1]) if len(found) == 2 else (0, "")

    def ask(self, body: dict[str, Any] = PLAIN, **headers: str) -> httpx.Response:
        url = f"{self.up.gateway}/v1/chat/completions"
        return self.client.post(url, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def actions(self) -> list[dict[str, Any]]:
        acts: list[dict[str, Any]] = self.up.report()["actions"]
        return acts

    def events(self, what: str) -> list[Event]:
        return [one for one in self.up.ask(lambda store: store.events(1_000)) if one.what == what]

    def endpoint(self) -> dict[str, Any]:
        return next(one for one in self.up.report()["clusters"][0]["endpoints"] if one["address"] == self.replica)


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(one)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    engines, folder = Engines(), tmp_path_factory.mktemp("actions")
    one, two = (f"127.0.0.1:{take_free_port()}" for _ in range(2))
    try:
        for address in (one, two):
            engines.start(address, "--model", "m", "--model", SPLIT, "--time-scale", "100")
        config = {
            "gateway": {"listen": "127.0.0.1:0"},
            "clusters": [
                {"name": CLUSTER, "models": ["m"], "endpoints": [{"address": one}, {"address": two}]},
                {"name": OTHER, "models": [], "endpoints": [{"address": two}]},
            ],
            "splits": {SPLIT: {CLUSTER: 500, OTHER: 500}},
            "classes": [{"name": "batch", "match": {"header": {"x-tier": "batch"}}}],
            "actions": {"rules": RULES},
        }
        up = start_up(folder, config=config)
        try:
            with httpx.Client(timeout=60) as client:
                world = World(up, one, client)
                wait_until(lambda: world.ask().status_code == 200, what="a request that is served")
                yield world
        finally:
            stop_up(up)
    finally:
        engines.stop()


def test_an_alert_told_fifty_times_cuts_retries_at_envoy_once_and_resolved_restores_them(world: World) -> None:
    before, known = world.retries(), len(world.events("act:retries pair"))
    assert before == {2}
    assert {world.alert("Failing") for _ in range(50)} == {200}
    wait_until(lambda: world.retries() == {0}, what="retries cut in Envoy's configuration dump")
    [act] = world.actions()
    assert (act["kind"], act["target"], act["rule"], act["alert"]) == ("retries", CLUSTER, "cut", "alert Failing")
    assert world.alert("Failing", "resolved") == 200
    wait_until(lambda: world.retries() == before, what="retries restored")
    assert world.actions() == []
    told = [(one.before, one.after) for one in world.events("act:retries pair")]
    assert told[known:] == [("", "to 0"), ("to 0", "")]


def test_a_release_window_holds_a_class_and_lower_priorities_and_releases_them(world: World) -> None:
    begin_ms = int(time.time() * 1000) - 1_000
    window = {"id": 17, "time": begin_ms, "timeEnd": begin_ms + 600_000, "tags": ["release"], "text": "v2"}
    assert world.tell("annotations", window).status_code == 200
    wait_until(lambda: world.ask(x_tier="batch").status_code == 429, what="the class held")
    held = world.ask(x_tier="batch")
    assert (held.headers["x-tidegate-reason"], held.json()["error"]["type"]) == ("held", "rate_limit_error")
    assert 1 <= int(held.headers["retry-after"]) <= 60
    assert world.ask(x_tidegate_priority="low").headers["x-tidegate-reason"] == "held"
    assert [world.ask().status_code, world.ask(x_tidegate_priority="high").status_code] == [200, 200]
    ends = {**window, "timeEnd": int(time.time() * 1000) + 1_000}
    assert world.tell("annotations", ends).status_code == 200
    wait_until(lambda: world.ask(x_tier="batch").status_code == 200, what="the class released at the window's end")
    wait_until(lambda: not world.actions(), what="no act left")


def test_a_drain_by_an_alert_is_explained_yields_to_a_pin_and_is_undone(world: World) -> None:
    assert world.alert("Slow", replica=world.replica) == 200
    wait_until(lambda: world.endpoint()["weight"] == 0, what="the replica drained")
    [act] = world.actions()
    why = json.loads(world.up.redis("HGET", f"tidegate:explain:{CLUSTER}", world.replica))
    assert (why["act"], why["drained"]) == (act["id"], None)
    assert why["reason"].startswith(f"drained by act {act['id']}")
    world.up.redis("HSET", f"tidegate:weight:{CLUSTER}", world.replica, "300")
    wait_until(lambda: world.endpoint()["weight"] == 300, what="the operator's pin")
    world.up.redis("HDEL", f"tidegate:weight:{CLUSTER}", world.replica)
    wait_until(lambda: world.endpoint()["weight"] == 0, what="the act again")
    assert world.alert("Slow", "resolved", replica=world.replica) == 200
    wait_until(lambda: (world.endpoint()["weight"] or 0) > 0, what="the replica undrained")
    assert "act" not in json.loads(world.up.redis("HGET", f"tidegate:explain:{CLUSTER}", world.replica))


def test_a_target_and_a_split_of_alerts_are_followed_and_undone(world: World) -> None:
    wait_until(lambda: world.target()[0] == 2, what="the target of what is there")
    wait_until(lambda: 0 < _to_other(world) < 20, what="both versions served by Envoy")
    assert {world.alert("Busy"), world.alert("Canary")} == {200}
    wait_until(lambda: world.target() == (4, "alert"), what="two more replicas wanted")
    wait_until(lambda: _to_other(world) == 0, what="one version alone served by Envoy")
    assert sorted(act["kind"] for act in world.actions()) == ["scale", "split"]
    assert {world.alert("Busy", "resolved"), world.alert("Canary", "resolved")} == {200}
    wait_until(lambda: world.target()[0] == 2, what="the target as it was")
    wait_until(lambda: 0 < _to_other(world) < 20, what="both versions served again")


def _to_other(world: World) -> int:
    """How many of 20 users' requests for the split model Envoy sends to the other version."""
    before = world.sent(OTHER)
    assert {world.ask(chat(SPLIT, user=f"user {n}")).status_code for n in range(20)} == {200}
    return world.sent(OTHER) - before

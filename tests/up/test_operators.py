"""Each order, by redis-cli and by the command line: at Envoy, in what operators read, over restarts, and undone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.conftest import wait_until
from tests.up.pair import CLUSTER, Pair
from tidegate.cli.main import main

Road = Callable[..., None]


@dataclass
class Operator:
    """Somebody who gives orders by either road, and watches Envoy."""

    pair: Pair
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def cli(self, *arguments: str) -> str:
        """`tidegate …` in this process: what it printed."""
        where = ["--redis-url", self.pair.up.ready["redis"], "--config", self.pair.up.ready["config"]]
        self.capture.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["tidegate", *arguments, *where])
        try:
            main()
        except SystemExit as exc:
            if exc.code:
                pytest.fail(self.capture.readouterr().err)
        return self.capture.readouterr().out

    def redis(self, verb: str, key: str, *rest: str) -> str:
        return self.pair.up.redis(verb, f"tidegate:{key}", *rest)

    def wait_until_done(self, who: str, step: Step) -> None:
        """At Envoy, and in the audit log: who reads a tunable may be ahead of the controller, which writes the log."""
        wait_until(lambda: step.is_done(self.pair.envoy()), what=f"{step} at Envoy")
        last = ("", step.value) if step.has else (step.value, "")
        wait_until(lambda: self.told(who, step.what)[-1:] == [last], what=f"{step} in the log")

    def told(self, who: str, what: str) -> list[tuple[str, str]]:
        """What the audit log says somebody changed: before and after."""
        return [(before, after) for one, before, after in self.events(what) if one == who]

    def events(self, what: str) -> list[tuple[str, str, str]]:
        told = [json.loads(line) for line in self.cli("events", "-n", "1000", "--json").splitlines()]
        return [(e["who"].partition(":")[0], e["before"], e["after"]) for e in told if e["what"] == what]

    def explain(self) -> dict[str, dict[str, object]]:
        told = json.loads(self.cli("explain", CLUSTER, "--json"))
        return {one["address"]: one for one in told["replicas"]} | {"tuned": told["tuned"]}


@dataclass(frozen=True)
class Step:
    """An order that sets or takes away `value`: by redis-cli, by the command line; what Envoy's clusters have or lack."""

    redis: Sequence[str]
    cli: Sequence[str]
    value: str
    has: str | None = None
    lacks: str | None = None

    @property
    def what(self) -> str:
        """As events name it."""
        return " ".join(self.redis[1:3])

    def is_done(self, text: str) -> bool:
        return (self.has is None or self.has in text) and (self.lacks is None or self.lacks not in text)


def steps(one: str) -> list[Step]:
    weight, drain, tune = f"weight:{CLUSTER}", f"drain:{CLUSTER}", f"tune:{CLUSTER}"
    pinned, drained = f"{one}::weight::333", f"{one}::health_flags::/eds_status_draining"
    most, name = f"{CLUSTER}::default_priority::max_requests::777\n", "envoy.max_requests"
    return [
        Step(("HSET", weight, one, "333"), ("weight", "set", CLUSTER, one, "333"), "333", has=pinned),
        Step(("HDEL", weight, one), ("weight", "clear", CLUSTER, one), "333", lacks=pinned),
        Step(("HSET", drain, one, "disk"), ("drain", CLUSTER, one, "--reason", "disk"), "disk", has=drained),
        Step(("HDEL", drain, one), ("undrain", CLUSTER, one), "disk", lacks=drained),
        Step(("HSET", tune, name, "777"), ("tune", "set", name, "777", "--cluster", CLUSTER), "777", has=most),
        Step(("HDEL", tune, name), ("tune", "unset", name, "--cluster", CLUSTER), "777", lacks=most),
    ]


@pytest.fixture
def operator(
    pair: Pair, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, patient: None
) -> Operator:
    return Operator(pair, capsys, monkeypatch)


@pytest.mark.envoy
def test_each_order_reaches_envoy_by_both_roads_is_logged_once_and_is_undone(operator: Operator) -> None:
    pair, roads = operator.pair, {"redis key": operator.redis, "cli": operator.cli}
    assert not any(step.is_done(pair.envoy()) for step in steps(pair.one) if step.has)
    before = {(who, step.what): operator.told(who, step.what) for who in roads for step in steps(pair.one)}
    for who, road in roads.items():
        for step in steps(pair.one):
            road(*(step.redis if who == "redis key" else step.cli))
            operator.wait_until_done(who, step)
        wait_until(lambda: not pair.up.report()["rejected"], what="nothing refused")
        for step in steps(pair.one):
            assert operator.told(who, step.what) == [*before[who, step.what], ("", step.value), (step.value, "")]
    assert all(operator.redis("EXISTS", f"{kind}:{CLUSTER}") == "0" for kind in ("weight", "drain", "tune"))


@pytest.mark.envoy
def test_orders_show_everywhere_survive_restarts_and_are_undone(operator: Operator) -> None:
    pair = operator.pair
    operator.cli("weight", "set", CLUSTER, pair.one, "333", "--for", "1h")
    operator.redis("HSET", f"drain:{CLUSTER}", pair.two, "disk for 2h")
    operator.cli("tune", "set", "envoy.max_requests", "777", "--cluster", CLUSTER)

    def is_in_force() -> bool:
        replicas = {e["address"]: e for e in pair.up.report()["clusters"][0]["endpoints"]}
        ends = replicas[pair.one]["pinned_until_ms"] and replicas[pair.two]["drained_until_ms"]
        return bool(ends) and replicas[pair.two]["drained"] == "disk" and "max_requests::777" in pair.envoy()

    wait_until(is_in_force, what="orders in force")
    wait_until(lambda: "until" in operator.redis("HGET", f"drain:{CLUSTER}", pair.two), what="the end as a time")
    ordered = {
        f"{key} {field}": operator.redis("HGET", key, field)
        for key, field in (
            (f"weight:{CLUSTER}", pair.one),
            (f"drain:{CLUSTER}", pair.two),
            (f"tune:{CLUSTER}", "envoy.max_requests"),
        )
    }
    wait_until(lambda: pair.logged_last().items() >= ordered.items(), what="orders in the log")
    texts = [operator.redis("HGETALL", f"{kind}:{CLUSTER}") for kind in ("weight", "drain", "tune")]
    told = operator.explain()
    assert told[pair.one]["pinned"] == 333
    assert told[pair.two]["drained"] == "disk"
    assert told["tuned"] == {"envoy.max_requests": {"value": "777", "from": f"tune:{CLUSTER}"}}
    logged = {what: operator.events(what) for what in ordered}

    for name in ("xds", "ext_proc"):
        old = pair.up.kill(name)
        wait_until(lambda name=name, old=old: pair.up.pid(name) not in {None, old}, what=f"another {name}")  # type: ignore[misc]
    wait_until(lambda: f"{pair.one}::weight::333" in pair.envoy() and is_in_force(), what="orders in force again")
    wait_until(lambda: all(pair.up.report()["services"].values()), what="every service")
    assert [operator.redis("HGETALL", f"{kind}:{CLUSTER}") for kind in ("weight", "drain", "tune")] == texts
    assert {what: operator.events(what) for what in logged} == logged

    pair.automatic_at_once()
    operator.cli("undrain", CLUSTER, pair.two)
    operator.redis("HDEL", f"weight:{CLUSTER}", pair.one)
    operator.redis("HDEL", f"tune:{CLUSTER}", "envoy.max_requests")
    wait_until(lambda: "max_requests::777" not in pair.envoy() and "draining" not in pair.envoy(), what="none at Envoy")
    wait_until(lambda: 20 <= pair.shares(50)[pair.one] <= 30, what="equal automatic weights")


@pytest.mark.envoy
def test_bad_values_are_refused_and_the_last_good_ones_stay_over_a_restart(operator: Operator) -> None:
    pair = operator.pair
    orders = {
        (f"weight:{CLUSTER}", pair.one): ("333", "banana", f"{pair.one}::weight::333\n"),
        (f"tune:{CLUSTER}", "envoy.max_requests"): ("777", "-1", "max_requests::777\n"),
    }

    def rejected() -> dict[str, str]:
        return pair.up.report()["rejected"]

    def are_in_force() -> bool:
        return all(at_envoy in pair.envoy() for *_, at_envoy in orders.values())

    for place, (good, _, _) in orders.items():
        operator.redis("HSET", *place, good)
    wait_until(are_in_force, what="the good values at Envoy")
    tuned = f"tune:{CLUSTER} envoy.max_requests"
    wait_until(lambda: operator.redis("HGET", "tuned", tuned) == "777", what="the controller knowing the last good one")
    for place, (_, bad, _) in orders.items():
        operator.redis("HSET", *place, bad)
    wait_until(lambda: len(rejected()) == 2, what="the sentences")
    for place, (good, bad, _) in orders.items():
        why = rejected()[" ".join(place)]
        assert bad in why
        assert f"the last good value {good} stays in force" in why
    old = pair.up.kill("xds")
    wait_until(lambda: pair.up.pid("xds") not in {None, old}, what="another xds")
    wait_until(lambda: pair.up.report()["services"]["xds"] and pair.up.report()["envoys"], what="Envoy served again")
    assert are_in_force()
    for place in orders:
        operator.redis("HDEL", *place)
    wait_until(lambda: not rejected() and not any(w in pair.envoy() for *_, w in orders.values()), what="the way back")

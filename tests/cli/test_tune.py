"""`tidegate tune`: what is in force, from where, and how it is changed and undone."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Desk
from tests.controller.world import A, B
from tidegate.domain.tunable import plain
from tidegate.domain.tuning import REGISTRY


def in_force(desk: Desk, *arguments: str) -> dict[tuple[str, str | None], tuple[str, str]]:
    rows = json.loads(desk.run("tune", *arguments, "--json").out)
    return {(row["name"], row["cluster"]): (row["value"], row["from"]) for row in rows}


def test_the_list_names_every_tunable_with_its_default_and_range(desk: Desk) -> None:
    rows = {row["name"]: row for row in json.loads(desk.run("tune", "list", "--json").out)}
    assert set(rows) == set(REGISTRY)
    for name, tunable in REGISTRY.items():
        assert (rows[name]["default"], rows[name]["range"], rows[name]["doc"]) == (
            plain(tunable.default),
            tunable.range,
            tunable.doc,
        )
    table = desk.run("tune", "list").out
    assert all(f" {name} " in table for name in REGISTRY)


def test_the_cluster_wins_over_all_and_all_over_the_file_and_the_file_over_the_default(desk: Desk) -> None:
    get = ("get", "envoy.retries")
    assert in_force(desk, *get) == {
        ("envoy.retries", None): ("2", "default"),
        ("envoy.retries", "phi-3"): ("1", "file"),
    }
    assert desk.run("tune", "set", "envoy.retries", "3").out == "envoy.retries is 3 everywhere\n"
    assert in_force(desk, *get) == {("envoy.retries", None): ("3", "tune")}
    said = desk.run("tune", "set", "envoy.retries", "5", "--cluster", "phi-3").out
    assert said == "envoy.retries is 5 in phi-3\n"
    assert in_force(desk, *get)["envoy.retries", "phi-3"] == ("5", "tune:phi-3")
    assert in_force(desk, "list", "--changed") == in_force(desk, *get)
    assert in_force(desk, *get, "--cluster", "sdxl") == {("envoy.retries", "sdxl"): ("3", "tune")}
    desk.run("tune", "unset", "envoy.retries", "--cluster", "phi-3")
    assert desk.run("tune", "unset", "envoy.retries").out == "envoy.retries is no longer tuned\n"
    assert in_force(desk, *get)["envoy.retries", "phi-3"] == ("1", "file")
    assert desk.run("tune", "unset", "envoy.retries").out == "envoy.retries was not tuned\n"


@pytest.mark.parametrize("scope", [(), ("--cluster", "phi-3")], ids=["everywhere", "one"])
def test_every_tunable_is_set_and_unset_by_its_name(desk: Desk, scope: tuple[str, ...]) -> None:
    """One command each way is enough for all: they share the code, and starting costs."""
    key = "tidegate:tune:phi-3" if scope else "tidegate:tune"
    for name in ("envoy.retries", "fit.safety", "queue.timeout_ms"):
        value = plain(REGISTRY[name].default)
        assert desk.run("tune", "set", name, value, *scope).code == 0
        assert desk.redis("HGET", key, name) == value
        assert desk.run("tune", "unset", name, *scope).code == 0
    assert desk.redis("EXISTS", key) == "0"


def test_a_dry_run_shows_each_cluster_before_and_after(desk: Desk) -> None:
    lines = desk.run("tune", "set", "envoy.retries", "2", "--dry-run").out.splitlines()
    assert lines == [
        "tune envoy.retries: - → 2",
        "  phi-3: 1 → 2",
        "  sdxl: 2 → 2 (as before)",
        "nothing was changed (--dry-run)",
    ]


def test_a_dry_run_shows_the_shares_that_other_rules_of_weights_lead_to(desk: Desk) -> None:
    """KV use is 0.4 and 0.75: by load 600 and 250 of 1000, by number format alone 990 each."""
    said = desk.run("tune", "set", "weight.policy", "static", "--cluster", "phi-3", "--dry-run").out
    assert "phi-3, once its weights have settled:" in said
    rows = {line.split()[0]: line.split()[1:7] for line in said.splitlines() if line.strip().startswith("10.0.0")}
    assert rows == {
        A: ["600", "→", "990", "70.6%", "→", "50.0%"],
        B: ["250", "→", "990", "29.4%", "→", "50.0%"],
    }
    assert "settled" not in desk.run("tune", "set", "load.latency", "0.9", "--dry-run").out, "no latency is known"
    desk.run("weight", "set", "phi-3", A, "600")
    desk.decide()
    said = desk.run("tune", "set", "weight.policy", "static", "--dry-run").out
    assert "600 → 600" in said, "a pin stays"


def test_what_redis_cli_wrote_badly_is_refused_once_and_the_last_good_value_shows(desk: Desk) -> None:
    desk.redis("HSET", "tidegate:tune:phi-3", "envoy.retries", "3")
    desk.decide()
    desk.redis("HSET", "tidegate:tune:phi-3", "envoy.retries", "banana", "envoy.retires", "1")
    desk.decide()
    why = "'banana' is no whole number between 0 and 5; the last good value 3 stays in force"
    assert json.loads(desk.run("status", "--json").out)["rejected"] == {
        "tune:phi-3 envoy.retries": why,
        "tune:phi-3 envoy.retires": "there is no tunable 'envoy.retires'; did you mean envoy.retries?",
    }
    assert in_force(desk, "get", "envoy.retries")["envoy.retries", "phi-3"] == ("3", "tune:phi-3")
    assert why in desk.run("tune", "get", "envoy.retries").out
    assert why in desk.run("explain", "phi-3").out
    assert desk.run("events").out.count("rejected tune:phi-3 envoy.retries") == 1
    assert desk.run("tune", "unset", "envoy.retires", "--cluster", "phi-3").code == 0
    assert desk.run("tune", "set", "envoy.retries", "4", "--cluster", "phi-3").code == 0
    desk.decide()
    assert json.loads(desk.run("status", "--json").out)["rejected"] == {}

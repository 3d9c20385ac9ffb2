"""`explain` and `events`: what operators read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Desk
from tests.conftest import wait_until
from tests.controller.world import A, B
from tidegate.cli.events import line
from tidegate.cli.explain import words
from tidegate.store.ports import Event

WEIGHTS = {"latency": 0.45, "vram": 0.35, "entropy": 0.2}
PATIENT = """
from tests.conftest import PATIENT_SECONDS
from tidegate.cli.entry import main
from tidegate.store.redis import RedisStore

RedisStore.__init__.__kwdefaults__["timeout_seconds"] = PATIENT_SECONDS
main()
"""
PLAIN = {
    "weight": 590,
    "traffic_ratio": 0.5,
    "automatic": 590,
    "reason": "capacity x (1 - load)",
    "status": "ready",
    "age_ms": 80,
    "stale": False,
    "load": {"latency": 0.5, "vram": 0.3, "entropy": 0.4, "total": 0.41},
}


def test_explain_says_the_parts_of_each_weight(desk: Desk) -> None:
    desk.run("weight", "set", "phi-3", A, "100", "--for", "10m")
    desk.run("tune", "set", "envoy.retries", "3")
    desk.decide()
    said = desk.run("explain", "phi-3").out
    assert "Its weight is 100 of 1000" in said
    assert "It is pinned by an operator, for " in said
    assert "envoy.retries 3 (tune)" in said
    told = json.loads(desk.run("explain", "phi-3", A, "--json").out)
    assert [one["address"] for one in told["replicas"]] == [A]
    assert told["replicas"][0]["pinned"] == 100
    assert told["replicas"][0]["load"]["vram"] == 0.4
    assert told["tuned"] == {"envoy.retries": {"value": "3", "from": "tune"}}
    assert B not in desk.run("explain", "phi-3", A).out


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "Its weight is 590 of 1000, 50.0% of the cluster's traffic by weight: capacity x (1 - load)."),
        ({}, "Its load is 0.41 = 0.45 x 0.50 (p99 latency) + 0.35 x 0.30 (memory in use) + 0.20 x 0.40 (request mix)."),
        ({}, "Its agent says ready, 0.1s ago."),
        (
            {"load": {"latency": None, "vram": 0.3, "entropy": None, "total": 0.3}},
            "Its load is 0.30 = 1.00 x 0.30 (memory in use); p99 latency and request mix unknown, so the others count more.",
        ),
        ({"capacity": 0.735}, "Its capacity is 0.73 of the cluster's largest."),
        (
            {"smoothed": 0.58, "steady": 0.59, "averaged_seconds": 42.0},
            "Averaged, its share is 0.580 by the window of the last looks and 0.590 over 42 s, which its weight follows.",
        ),
        ({"ramping_seconds": 3.2}, "It began to serve 3 s ago and is ramping up."),
        ({"load": {}}, "Its load is unknown: nothing that it reports tells it."),
        ({"pinned": 7}, "It is pinned by an operator, until the key is deleted."),
        ({"drained": "", "drained_until_ms": 91_000}, "It is drained by an operator, for 1m30s more."),
        ({"pinned": 7}, "Without the order its weight would be 590."),
        ({"stale": True, "age_ms": 7200}, "No fresh sample tells its state; it was last sampled 7.2s ago."),
        ({"stale": True, "age_ms": None}, "No fresh sample tells its state; it was last sampled never."),
    ],
)
def test_words_of_a_weight(more: dict[str, object], sentence: str) -> None:
    assert sentence in list(words({**PLAIN, **more}, WEIGHTS, now_ms=1_000))


def test_a_replica_without_an_explanation_says_so() -> None:
    assert list(words({"weight": None}, WEIGHTS, 0)) == ["No controller has explained this replica yet."]


def test_events_are_filtered_counted_and_free_of_control_codes(desk: Desk) -> None:
    desk.run("weight", "set", "phi-3", A, "100")
    desk.run("weight", "set", "phi-3", B, "300")
    assert len(desk.run("events", "-n", "1").out.splitlines()) == 1
    assert desk.run("events", B).out.count("pinned") == 1
    assert desk.run("events", "-n", "0").out == ""
    assert "\x1b" not in line(Event(at_ms=0, who="x\x1b[2J", what="y\nz")).plain
    assert "\n" not in line(Event(at_ms=0, who="x", what="y\nz")).plain


def test_follow_prints_what_comes_until_it_is_interrupted(desk: Desk, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PATIENT, "events", "--follow", "-n", "0", "--json", *desk.where]
    printed = tmp_path / "events"

    def came() -> bool:
        assert follower.poll() is None
        desk.run("weight", "set", "phi-3", A, "100")
        return printed.read_text().endswith("\n")

    with printed.open("w") as out, subprocess.Popen(command, stdout=out) as follower:
        try:
            wait_until(came, what="the event")
        finally:
            follower.send_signal(signal.SIGINT)
        assert follower.wait(timeout=60) in {0, 130}
    told = json.loads(printed.read_text().splitlines()[0])
    assert (told["what"], told["after"]) == (f"weight:phi-3 {A}", "100")

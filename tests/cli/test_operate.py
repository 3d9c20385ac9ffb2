"""Orders by the command line: what they write, what they say, what they ask, and what they refuse."""

from __future__ import annotations

import io
import json
import socket

import pytest

from tests.cli.conftest import Desk
from tests.controller.world import A, B
from tidegate.domain.lifetime import read_timed

WHO = f"cli:ann@{socket.gethostname()}"
PIN, DRAIN = f"weight:phi-3 {A}", f"drain:phi-3 {A}"


class Terminal(io.StringIO):
    """Standard input with somebody at it."""

    def isatty(self) -> bool:
        return True


def told(desk: Desk, what: str) -> list[tuple[str, str, str, str]]:
    said = [json.loads(line) for line in desk.run("events", "--json", "-n", "100").out.splitlines()]
    return [(e["who"], e["before"], e["after"], e["why"]) for e in said if e["what"] == what]


def test_a_pin_is_written_signed_in_force_and_undone(desk: Desk) -> None:
    assert desk.run("weight", "set", "phi-3", A, "100").out == f"phi-3 {A}: weight pinned to 100\n"
    desk.decide()
    assert desk.weight(A) == "100"
    assert desk.run("weight", "clear", "phi-3").out == f"phi-3: automatic again: {A}\n"
    desk.decide()
    assert desk.weight(A) != "100"
    assert told(desk, PIN) == [(WHO, "", "100", "pinned"), (WHO, "100", "", "cleared")]
    assert desk.run("weight", "clear", "phi-3").out == "phi-3: nothing was pinned\n"


def test_redis_cli_does_the_same_and_the_log_names_the_key(desk: Desk) -> None:
    desk.redis("HSET", "tidegate:weight:phi-3", A, "100")
    desk.decide()
    desk.redis("HDEL", "tidegate:weight:phi-3", A)
    desk.decide()
    assert told(desk, PIN) == [("redis key", "", "100", "set"), ("redis key", "100", "", "cleared")]


def test_a_drain_has_a_reason_an_end_and_a_way_back(desk: Desk) -> None:
    said = desk.run("drain", "phi-3", A, "--reason", "kernel\n update", "--for", "2h").out
    text = desk.redis("HGET", "tidegate:drain:phi-3", A)
    assert said == f"phi-3 {A}: draining (kernel update) until {text.rpartition(' ')[2]}\n"
    timed = read_timed(text, 0)
    assert timed.rest == "kernel update"
    assert timed.until_ms is not None
    desk.decide()
    assert desk.weight(A) == "0"
    assert f"drained: phi-3 {A}: kernel update until " in desk.run("status").out
    assert desk.run("undrain", "phi-3", A).out == f"phi-3 {A}: takes traffic again\n"
    desk.decide()
    assert desk.weight(A) != "0"
    assert [why for *_, why in told(desk, DRAIN)] == ["drained", "undrained"]
    assert desk.run("undrain", "phi-3", A).out == f"phi-3 {A}: was not draining\n"


@pytest.mark.parametrize(
    "command",
    [
        ("weight", "set", "phi-3", A, "100"),
        ("drain", "phi-3", A),
        ("weight", "clear", "phi-3", B),
        ("undrain", "phi-3", B),
        ("tune", "set", "envoy.retries", "3"),
        ("tune", "unset", "envoy.eject_ms"),
    ],
    ids=" ".join,
)
def test_a_dry_run_writes_nothing_and_says_so(desk: Desk, command: tuple[str, ...]) -> None:
    desk.redis("HSET", "tidegate:weight:phi-3", B, "7")
    desk.redis("HSET", "tidegate:drain:phi-3", B, "disk")
    desk.redis("HSET", "tidegate:tune", "envoy.eject_ms", "700")
    desk.decide()
    keys = ("weight:phi-3", "drain:phi-3", "tune", "tune:phi-3")
    before = [desk.redis("HGETALL", f"tidegate:{key}") for key in keys], desk.redis("XLEN", "tidegate:events")
    said = desk.run(*command, "--dry-run")
    assert said.code == 0
    assert said.out.endswith("nothing was changed (--dry-run)\n")
    assert "→" in said.out
    assert ([desk.redis("HGETALL", f"tidegate:{key}") for key in keys], desk.redis("XLEN", "tidegate:events")) == before


def test_a_dry_run_shows_the_shares_before_and_after(desk: Desk) -> None:
    desk.run("weight", "set", "phi-3", A, "100")
    desk.run("weight", "set", "phi-3", B, "300")
    desk.decide()
    lines = desk.run("weight", "set", "phi-3", A, "900", "--dry-run").out.splitlines()
    moved = next(line.split() for line in lines if line.strip().startswith(A))
    stays = next(line.split() for line in lines if line.strip().startswith(B))
    assert moved[1:7] == ["100", "→", "900", "25.0%", "→", "75.0%"]
    assert stays[1:7] == ["300", "→", "300", "75.0%", "→", "25.0%"]


def test_what_would_leave_a_cluster_without_capacity_needs_a_yes(desk: Desk) -> None:
    assert desk.run("drain", "phi-3", A).code == 0
    desk.decide()
    refused = desk.run("weight", "set", "phi-3", B, "0")
    assert refused.code == 2
    assert (
        refused.err
        == "phi-3 would have no replica that takes traffic: its requests get 503; --yes goes on all the same\n"
    )
    assert desk.redis("EXISTS", "tidegate:weight:phi-3") == "0"
    assert "its requests get 503" in desk.run("drain", "phi-3", B, "--dry-run").out
    assert desk.run("drain", "phi-3", B, "--yes").code == 0
    desk.decide()
    assert desk.run("weight", "set", "phi-3", B, "0").code == 0, "a cluster that serves nobody loses nothing"


@pytest.mark.parametrize(("answer", "code", "kept"), [("y\n", 0, "1"), ("n\n", 2, "0")])
def test_at_a_terminal_the_question_is_asked(desk: Desk, answer: str, code: int, kept: str) -> None:
    desk.monkeypatch.setattr("sys.stdin", Terminal(answer))
    said = desk.run("drain", "sdxl", "10.0.0.9:8000")
    assert said.code == code
    assert "Go on?" in said.out
    assert desk.redis("HLEN", "tidegate:drain:sdxl") == kept


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("weight", "set", "phi-4", A, "1"), "there is no cluster phi-4 (there are: phi-3, sdxl)"),
        (("weight", "set", "phi-3", "10.0.0.7:1", "1"), f"phi-3 has no replica 10.0.0.7:1 (it has: {A}, {B})"),
        (("weight", "set", "phi-3", A, "1001"), "'1001' is not a whole number from 0 to 1000"),
        (("weight", "set", "phi-3", A, "banana"), "'banana' is not a whole number from 0 to 1000"),
        (("weight", "set", "phi-3", A, "1", "--for", "10"), "--for: '10' is no duration such as 90s, 10m, 1h30m or 2d"),
        (("drain", "phi-3", A, "--for", "999d"), "--for: '999d' is not between 1s and 366d"),
        (("drain", "phi-4", A), "there is no cluster phi-4"),
        (("explain", "phi-4"), "there is no cluster phi-4"),
        (("explain", "phi-3", "10.0.0.7:1"), "phi-3 has no replica 10.0.0.7:1"),
        (("tune", "set", "envoy.retires", "1"), "there is no tunable 'envoy.retires'; did you mean envoy.retries?"),
        (("tune", "set", "envoy.retries", "9"), "envoy.retries: '9' is not between 0 and 5"),
        (("tune", "set", "envoy.retries", "1", "--cluster", "phi-4"), "there is no cluster phi-4"),
        (("tune", "get", "colour"), "there is no tunable 'colour'"),
        (("tune", "unset", "colour"), "there is no tunable 'colour'"),
        (("top",), "top needs a terminal; --once prints one look"),
        (("top", "phi-4", "--once", "--interval", "0.1"), "there is no cluster phi-4"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_slip_is_refused_with_a_sentence_and_nothing_is_written(
    desk: Desk, command: tuple[str, ...], why: str
) -> None:
    said = desk.run(*command)
    assert said.code == 2
    assert why in said.err
    assert desk.redis("EXISTS", "tidegate:weight:phi-3", "tidegate:drain:phi-3", "tidegate:tune") == "0"


def test_force_writes_for_a_replica_that_nobody_knows(desk: Desk) -> None:
    assert desk.run("weight", "set", "phi-3", "10.0.0.7:1", "5", "--force").code == 0
    assert desk.redis("HGET", "tidegate:weight:phi-3", "10.0.0.7:1") == "5"
    assert desk.run("drain", "new", "10.0.0.7:1", "--force").code == 0
    assert desk.redis("HLEN", "tidegate:drain:new") == "1"


def test_without_redis_each_command_says_so_and_exits_1(desk: Desk) -> None:
    desk.where = ["--config", str(desk.config), "--redis-url", "redis://127.0.0.1:1/0"]
    for command in (("drain", "phi-3", A), ("tune", "list"), ("explain", "phi-3"), ("events",), ("weight", "show")):
        said = desk.run(*command)
        assert said.code == 1, command
        assert "Redis at 127.0.0.1:1 cannot be reached" in said.err


def test_weight_show_says_who_ordered_what(desk: Desk) -> None:
    desk.run("weight", "set", "phi-3", A, "100")
    desk.run("drain", "phi-3", B, "--reason", "disk", "--yes")
    desk.decide()
    rows = json.loads(desk.run("weight", "show", "phi-3", "--json").out)
    assert [(r["address"], r["weight"], r["share"], r["order"]) for r in rows] == [
        (A, 100, 1.0, "pinned 100"),
        (B, 0, 0.0, "drained: disk"),
    ]
    assert "drained: disk" in desk.run("weight", "show").out

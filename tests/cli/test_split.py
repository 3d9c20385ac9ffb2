"""`tidegate split`: written as a whole, signed, refused before it is written, and shown."""

from __future__ import annotations

import json

import pytest

from tests.actions.acts import act
from tests.cli.conftest import Desk
from tidegate.store.acts import ALERTS, encode_acts

KEY = "tidegate:split:phi-3"


def test_a_split_is_written_as_a_whole_and_told_once(desk: Desk) -> None:
    desk.redis("HSET", KEY, "gone", "1000")
    said = desk.run("split", "set", "phi-3", "phi-3=900", "sdxl=100")
    assert (said.code, said.out) == (0, "split:phi-3: gone=1000 → phi-3=900 sdxl=100\n")
    assert desk.redis("HGETALL", KEY).split() == ["phi-3", "900", "sdxl", "100"]
    desk.decide()
    lines = [json.loads(line) for line in desk.run("events", "split:phi-3", "--json").out.splitlines()]
    assert [(line["after"], line["who"][:4]) for line in lines if line["what"] == "split:phi-3"] == [
        ("phi-3=900 sdxl=100", "cli:")
    ]


def test_it_is_cleared_and_a_dry_run_changes_nothing(desk: Desk) -> None:
    desk.run("split", "set", "phi-3", "phi-3=900", "sdxl=100")
    said = desk.run("split", "clear", "phi-3", "--dry-run").out
    assert said == "split:phi-3: phi-3=900 sdxl=100 → as in the file\nnothing was changed (--dry-run)\n"
    assert desk.redis("EXISTS", KEY) == "1"
    assert desk.run("split", "clear", "phi-3").code == 0
    assert desk.redis("EXISTS", KEY) == "0"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["phi-3", "phi-3=999"], "phi-3: its shares sum to 999; they have to sum to 1000"),
        (["phi-3", "phi=1000"], "phi-3: there is no cluster 'phi'"),
        (["phi-3", "phi-3"], "phi-3: the share of phi-3, '', is not a whole number from 0 to 1000"),
        (["phi-3", "phi-3=1000", "phi-3=0"], "a cluster is named twice"),
        (["phi", "phi-3=1000"], "no model of the file is called phi (there are: phi-3, sdxl)"),
    ],
    ids=["sum", "cluster", "no share", "twice", "model"],
)
def test_what_the_controller_would_refuse_is_not_written(desk: Desk, words: list[str], why: str) -> None:
    said = desk.run("split", "set", *words)
    assert (said.code, said.err.strip()) == (2, why)
    assert desk.redis("KEYS", "tidegate:split:*") == ""


def test_show_has_shares_and_what_is_refused(desk: Desk) -> None:
    assert "has no split" in desk.run("split", "show", "phi-3").err
    desk.run("split", "set", "phi-3", "phi-3=900", "sdxl=100")
    desk.decide()
    desk.redis("HSET", KEY, "sdxl", "200")
    desk.decide()
    told = json.loads(desk.run("split", "show", "phi-3", "--json").out)
    empty = {"seen_permille": None, "requests": None, "error_rate": None, "p95_ms": None}
    assert told == {
        "model": "phi-3",
        "versions": [
            {"cluster": "phi-3", "share_permille": 900, **empty},
            {"cluster": "sdxl", "share_permille": 100, **empty},
        ],
    }
    assert json.loads(desk.run("split", "show", "--json").out) == [told]
    table = desk.run("split", "show").out
    assert "900 ‰" in table
    assert "rejected: split:phi-3: its shares sum to 1100" in table


def test_show_has_the_split_of_an_act_until_an_operator_types_another(desk: Desk) -> None:
    acts = encode_acts([act("split", model="phi-3", parts={"phi-3": 700, "sdxl": 300})]).decode()
    desk.redis("HSET", "tidegate:acts", ALERTS, acts)
    assert shares(desk) == {"phi-3": 700, "sdxl": 300}
    desk.run("split", "set", "phi-3", "phi-3=1000")
    desk.decide()
    assert shares(desk) == {"phi-3": 1000}


def shares(desk: Desk) -> dict[str, int]:
    found = json.loads(desk.run("split", "show", "phi-3", "--json").out)
    return {one["cluster"]: one["share_permille"] for one in found["versions"]}

"""`tidegate rollout`: what a user tries first, before and after the controller has looked, and what is refused."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry

from controller.rollouts.duty import Rollouts
from controller.rollouts.metrics import RolloutMetrics
from tests.cli.conftest import Desk
from tests.ports import take_free_port
from tests.rollout.figures import figures, told
from tidegate.cli import rollout
from tidegate.domain.outcomes.report import Report
from tidegate.settings.config_file import load
from tidegate.store.ports import Store
from tidegate.store.rollouts import SplitLine

pytestmark = pytest.mark.redis

START = ("rollout", "start", "phi-3", "--to", "sdxl")


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "HEARD_WITHIN_SECONDS", 0.1)


def look(desk: Desk, times: int = 1) -> None:
    """The controller's duty looks."""

    async def go(store: Store) -> None:
        lease = await store.take_lead("c", ttl_ms=60_000)
        assert lease is not None
        duty = Rollouts(store, load(desk.config).topology, RolloutMetrics(CollectorRegistry()))
        for _ in range(times):
            await duty.tick(lease)
        await store.resign(lease)

    desk.ask(go)


def shown(desk: Desk) -> dict[str, object]:
    found: dict[str, object] = json.loads(desk.run("rollout", "show", "phi-3", "--json").out)
    return found


def test_start_says_what_it_will_do_and_that_nobody_has_taken_it_up(desk: Desk) -> None:
    said = desk.run(*START)
    assert said.code == 0
    limits = "back where it has more than 1.00% faults and more than phi-3, or a p95 beyond 1.5 times, or no replica that serves for 2m"
    assert said.out.splitlines() == [
        "phi-3: from phi-3 to sdxl: 1 %, 5 %, 25 %, 50 %, 100 %, each for 10m",
        f"{limits}; fewer than 50 requests decide nothing",
        "no controller leads at present; it begins once one does",
        "nobody tells how requests end (outcomes); it holds its first step until somebody does",
        "written; no controller has taken it up yet (`tidegate rollout show phi-3`)",
    ]
    assert shown(desk)["phase"] == "asked"
    assert "asked for" in desk.run("rollout", "list").out


def test_a_dry_run_writes_nothing(desk: Desk) -> None:
    assert desk.run(*START, "--dry-run").out.endswith("nothing was changed (--dry-run)\n")
    assert desk.redis("KEYS", "tidegate:rollout*") == ""


def test_it_goes_and_is_shown_with_what_both_versions_did(desk: Desk) -> None:
    desk.run(*START, "--steps", "0.1,50", "--max-error-rate", "5%")

    async def tell(store: Store, requests: int) -> None:
        versions = {"phi-3": {"phi-3": told(figures(requests)), "sdxl": told(figures(requests // 10, faults=1))}}
        await store.tell_outcomes("o", Report(versions=versions, run="r"), ttl_ms=60_000)

    desk.ask(lambda store: tell(store, 10))
    look(desk)
    desk.ask(lambda store: tell(store, 210))
    look(desk)
    found = shown(desk)
    assert (found["place"], found["share_permille"], found["why"]) == ("step 1 of 2 (0.1 %)", 1, "the hold is not over")
    assert found["versions"][0] | {"p95_ms": None} == {  # type: ignore[index]
        "cluster": "sdxl",
        "requests": 20,
        "faults": 0,
        "error_rate": 0.0,
        "p95_ms": None,
        "client_errors": 0,
        "back_pressure": 0,
        "left": 0,
    }
    text = desk.run("rollout", "show", "phi-3").out
    assert "too few: the canary had 20 of the 50 requests that it takes" in text
    assert "limits: 5.00% faults, 1.5 times the p95, from 50 requests on" in text
    assert desk.redis("HGETALL", "tidegate:split:phi-3").split() == ["phi-3", "999", "sdxl", "1"]


def test_status_lists_rollouts_that_have_not_ended(desk: Desk) -> None:
    assert json.loads(desk.run("status", "--json").out)["rollouts"] == []
    desk.run(*START)
    look(desk)
    why = "nobody tells figures (see outcomes in `tidegate status`); nothing is decided until somebody does"
    look(desk)
    assert json.loads(desk.run("status", "--json").out)["rollouts"] == [
        {
            "model": "phi-3",
            "phase": "running",
            "place": "step 1 of 5 (1 %)",
            "from": "phi-3",
            "to": "sdxl",
            "share_permille": 10,
            "verdict": "too_few",
            "why": why,
        }
    ]
    assert f"rollout: phi-3 to sdxl: step 1 of 5 (1 %): {why}" in desk.run("status").out
    desk.run("rollout", "abort", "phi-3")
    look(desk)
    assert json.loads(desk.run("status", "--json").out)["rollouts"] == []


def test_orders_are_carried_out_signed_and_refused_where_nothing_goes(desk: Desk) -> None:
    for word in ("pause", "resume", "abort", "promote"):
        assert desk.run("rollout", word, "phi-3").err == "no rollout of phi-3 goes on: there is none\n"
    desk.run(*START)
    look(desk)
    assert desk.run("rollout", "resume", "phi-3").err == "the rollout of phi-3 is not paused\n"
    assert desk.run("rollout", "pause", "phi-3").code == 0
    look(desk)
    assert shown(desk)["place"] == "step 1 of 5 (1 %), paused"
    desk.run("rollout", "promote", "phi-3", "--full")
    look(desk)
    assert (shown(desk)["phase"], shown(desk)["share_permille"]) == ("done", 1000)
    assert desk.run("rollout", "abort", "phi-3").err == "no rollout of phi-3 goes on: it is done\n"
    lines = [json.loads(line) for line in desk.run("events", "rollout:phi-3", "--json").out.splitlines()]
    assert [(line["who"][:4], line["after"]) for line in lines] == [
        ("cli:", "to sdxl"),
        ("cont", "step 1 of 5 (1 %)"),
        ("cli:", "pause"),
        ("cont", "paused"),
        ("cli:", "finish"),
        ("cont", "done"),
    ]


def test_a_second_one_begins_anew_once_the_first_is_over(desk: Desk) -> None:
    desk.run(*START)
    look(desk)
    again = desk.run(*START)
    assert (again.code, again.err) == (
        2,
        "a rollout of phi-3 to sdxl goes on already (step 1, running); `tidegate rollout abort phi-3` ends it\n",
    )
    desk.run("rollout", "abort", "phi-3")
    look(desk)
    assert desk.redis("HGETALL", "tidegate:split:phi-3").split() == ["phi-3", "1000", "sdxl", "0"]
    assert desk.run(*START, "--steps", "2,4").code == 0
    look(desk)
    assert (shown(desk)["place"], shown(desk)["steps_permille"]) == ("step 1 of 2 (2 %)", [20, 40])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["phi", "--to", "sdxl"], "no model of the file is called phi (there are: phi-3, sdxl)"),
        (["phi-3", "--to", "sdx"], "phi-3: there is no cluster 'sdx' (there are: phi-3, sdxl)"),
        (["phi-3", "--to", "phi-3"], "phi-3: phi-3 serves the model alone; name another cluster to go to, or `from`"),
        (
            ["phi-3", "--to", "sdxl", "--steps", "5,1"],
            "phi-3: the steps 5,1 do not rise; each has to be more than the one before",
        ),
        (["phi-3", "--to", "sdxl", "--hold", "1"], "phi-3: the hold '1' is no duration such as 90s, 10m or 1h30m"),
    ],
    ids=["model", "cluster", "itself", "steps", "hold"],
)
def test_what_cannot_be_is_refused_before_it_is_written(desk: Desk, words: list[str], why: str) -> None:
    said = desk.run("rollout", "start", *words)
    assert (said.code, said.err.strip()) == (2, why)
    assert desk.redis("KEYS", "tidegate:rollout*") == ""


def test_without_redis_it_says_so(desk: Desk) -> None:
    desk.where[-1] = f"redis://127.0.0.1:{take_free_port()}/0"
    said = desk.run(*START)
    assert (said.code, "Traceback" in said.err) == (1, False)
    assert "Redis" in said.err


def test_a_model_without_a_rollout(desk: Desk) -> None:
    said = desk.run("rollout", "show", "phi-3")
    assert said.err == "phi-3 has no rollout; `tidegate rollout start phi-3 --to CLUSTER` begins one\n"
    assert json.loads(desk.run("rollout", "list", "--json").out) == []


def test_a_split_set_by_hand_says_that_it_pauses_a_rollout(desk: Desk) -> None:
    desk.run(*START)
    look(desk)
    assert "a rollout of phi-3 goes on; it pauses now" in desk.run("split", "set", "phi-3", "phi-3=1000").out
    look(desk, 2)
    assert "somebody else changed the split" in str(shown(desk)["why"])


def test_history_is_shown(desk: Desk) -> None:
    assert "has no history" in desk.run("split", "history", "phi-3").err
    line = SplitLine(at_ms=1_764_460_000_000, why="changed", versions={"sdxl": {"share_permille": 7, "requests": 3}})
    desk.ask(lambda store: store.note_split("phi-3", line))
    assert json.loads(desk.run("split", "history", "phi-3", "--json").out)["versions"][0]["requests"] == 3
    assert "7 ‰" in desk.run("split", "history", "phi-3").out

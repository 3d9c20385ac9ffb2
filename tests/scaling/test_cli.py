"""`tidegate scale`: an order is typed, shown, told and cleared; what is no number is not written."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry

from controller.scaling.duty import Scaling
from controller.scaling.metrics import ScaleMetrics
from tests.cli.conftest import Desk
from tests.controller.world import TOPOLOGY, A
from tidegate.domain.actions.act import Act, Deed, Kind
from tidegate.store.ports import Store

KEY = "tidegate:tune:phi-3"


def look(desk: Desk) -> None:
    """One look of a leader's duty, on Redis."""

    async def go(store: Store) -> None:
        lease = await store.take_lead("test", ttl_ms=60_000)
        assert lease is not None
        await Scaling(store, TOPOLOGY, ScaleMetrics(CollectorRegistry())).tick(lease)
        await store.resign(lease)

    desk.ask(go)


def test_an_order_is_written_shown_and_cleared(desk: Desk) -> None:
    look(desk)
    said = desk.run("scale", "set", "phi-3", "5", "--for", "1h")
    assert said.code == 0
    assert said.out.startswith("phi-3: 5 until 2")
    look(desk)
    [row] = json.loads(desk.run("scale", "show", "phi-3", "--json").out)
    assert (row["desired"], row["reason"], row["automatic"], row["ready"]) == (5, "operator", 2, 2)
    assert row["order"].startswith("5 until ")
    assert "phi-3: 5 for " in desk.run("scale", "show").out
    status = json.loads(desk.run("status", "--json").out)
    scale = next(one["scale"] for one in status["clusters"] if one["name"] == "phi-3")
    assert {name: scale[name] for name in ("desired", "reason")} == {"desired": 5, "reason": "operator"}
    assert scale["since_ms"] == row["since_ms"]
    assert "scale: phi-3: 5 wanted, 2 serve: operator" in desk.run("status").out
    assert desk.run("scale", "clear", "phi-3").out == "phi-3: its load decides again\n"
    look(desk)
    assert json.loads(desk.run("scale", "show", "phi-3", "--json").out)[0]["desired"] == 2
    assert desk.run("scale", "clear", "phi-3").out == "phi-3: no number was ordered\n"


def test_the_key_has_what_the_contract_says(desk: Desk) -> None:
    look(desk)
    fields = desk.redis("HGETALL", "tidegate:scale:phi-3").splitlines()
    told = dict(zip(fields[::2], fields[1::2], strict=True))
    assert (told["desired"], told["reason"]) == ("2", "observed")
    assert told["since_ms"].isdigit()


def test_a_bare_hset_orders_as_well_and_its_end_is_written_back(desk: Desk) -> None:
    desk.redis("HSET", KEY, "scale.replicas", "4 for 10m")
    look(desk)
    assert desk.redis("HGET", "tidegate:scale:phi-3", "desired") == "4"
    assert desk.redis("HGET", KEY, "scale.replicas").startswith("4 until ")


def test_the_audit_log_says_who_ordered_and_what_followed(desk: Desk) -> None:
    look(desk)
    desk.run("scale", "set", "phi-3", "3")
    look(desk)
    lines = [json.loads(line) for line in desk.run("events", "--json").out.splitlines()]
    told = [(line["what"], line["before"], line["after"]) for line in lines if "scale" in line["what"]]
    assert told == [
        ("scale:phi-3", "", "2"),
        ("tune:phi-3 scale.replicas", "", "3"),
        ("scale:phi-3", "2", "3"),
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["phi-3", "many"], "'many' is not a whole number of replicas"),
        (["phi-3", "3.5"], "'3.5' is not a whole number of replicas"),
        (["phi-3", "1000000"], "'1000000' is not auto or a whole number up to 100000"),
        (["phi", "3"], "there is no cluster phi (there are: phi-3, sdxl)"),
        (["phi-3", "3", "--for", "soon"], "--for: 'soon' is no duration"),
    ],
    ids=["word", "fraction", "too many", "no cluster", "no time"],
)
def test_what_is_no_order_is_not_written(desk: Desk, words: list[str], why: str) -> None:
    said = desk.run("scale", "set", *words)
    assert said.code == 2
    assert said.err.startswith(why)
    assert desk.redis("EXISTS", KEY) == "0"


def test_a_dry_run_changes_nothing(desk: Desk) -> None:
    said = desk.run("scale", "set", "phi-3", "3", "--dry-run").out
    assert said == "tune:phi-3 scale.replicas: - → 3\nnothing was changed (--dry-run)\n"
    assert desk.redis("EXISTS", KEY) == "0"


def test_explain_says_that_a_replica_is_reduced_and_by_what(desk: Desk) -> None:
    deed = Deed(kind=Kind.REDUCE, cluster="phi-3", replica=A, ratio=0.25)
    cause = "self-healing: 50% of 100 requests were faults"
    act = Act(id="ab12", deed=deed, rule="self-healing", cause=cause, since_ms=1)
    whole = int(desk.weight(A))
    desk.ask(lambda store: store.write_acts("self-healing", [act], []))
    desk.decide(a=0.4, b=0.75)
    assert int(desk.weight(A)) == pytest.approx(whole / 4, rel=0.05)
    said = desk.run("explain", "phi-3", A).out
    assert "reduced to × 0.25 by act ab12" in said
    assert "of rule self-healing holds for" in said
    assert cause in said
    told = json.loads(desk.run("explain", "phi-3", A, "--json").out)["replicas"][0]["acts"]
    assert [(one["id"], one["cause"]) for one in told] == [("ab12", cause)]

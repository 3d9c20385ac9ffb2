"""What operators type into `split:{model}`: what is good, why the rest is refused, and what stays in force."""

from __future__ import annotations

import pytest

from tidegate.domain.routing import Split
from tidegate.domain.split import in_force, judge, read_parts, text_of
from tidegate.domain.topology import Cluster, Topology

TOPOLOGY = Topology(
    clusters=(Cluster("canary", models=()), Cluster("stable", models=("m",)), Cluster("other", models=("x",))),
    splits=(Split("m", (("stable", 990), ("canary", 10)), ("canary",)),),
)
GOOD = "stable=950 canary=50"


def refused(fields: dict[str, str], last: str | None = GOOD) -> str:
    judged = judge({"m": fields}, TOPOLOGY.versions, {"split:m": last} if last else {})
    assert judged.in_force == ({"split:m": last} if last else {})
    return judged.rejected["split:m"]


def test_what_is_good_is_in_force_in_the_order_of_the_file() -> None:
    judged = judge({"m": {"canary": "50", "stable": "950"}}, TOPOLOGY.versions, {})
    assert (judged.in_force, judged.rejected) == ({"split:m": GOOD}, {})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"stable": "950", "canary": "40"}, "its shares sum to 990; they have to sum to 1000"),
        ({"stable": "990", "canari": "10"}, "there is no cluster 'canari'"),
        ({"stable": "99O", "canary": "10"}, "the share of stable, '99O', is not a whole number from 0 to 1000"),
        ({"stable": "1001", "canary": "0"}, "the share of stable, '1001', is not a whole number from 0 to 1000"),
        ({"stable": "990.5", "canary": "9.5"}, "the share of stable, '990.5', is not"),
        ({"stable": "-1", "canary": "1001"}, "the share of stable, '-1', is not"),
        ({"x" * 99: "1000"}, "there is no cluster 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'"),
    ],
    ids=["sum", "unknown cluster", "letter", "too large", "fraction", "negative", "long name"],
)
def test_what_is_bad_is_refused_with_a_sentence_and_the_last_good_split_stays(fields: dict[str, str], why: str) -> None:
    said = refused(fields)
    assert said.startswith(why)
    assert said.endswith(f"; the last good split, {GOOD}, stays in force")


def test_without_a_last_good_split_that_of_the_file_stays() -> None:
    assert refused({"stable": "1"}, None).endswith("; the file's split, if it has one, stays in force")


def test_a_last_good_split_that_names_a_cluster_of_another_file_is_forgotten() -> None:
    judged = judge({"m": {"stable": "1"}}, TOPOLOGY.versions, {"split:m": "stable=1 gone=999"})
    assert judged.in_force == {}


def test_a_key_that_holds_no_hash_leaves_the_last_good_split() -> None:
    judged = judge({}, TOPOLOGY.versions, {"split:m": GOOD, "tune load.vram": "0.3"}, {"split:m": "is not a hash"})
    assert judged.in_force == {"split:m": GOOD}


def test_a_split_that_was_deleted_is_no_longer_in_force() -> None:
    assert judge({}, TOPOLOGY.versions, {"split:m": GOOD}).in_force == {}


def test_what_the_controller_accepted_wins_over_the_file() -> None:
    assert in_force(TOPOLOGY, {})["m"].parts == (("stable", 990), ("canary", 10))
    live = in_force(TOPOLOGY, {"split:m": GOOD, "split:x": "other=1000", "split:nobody": "stable=1000", "tune a": "1"})
    assert {model: split.parts for model, split in live.items()} == {
        "m": (("stable", 950), ("canary", 50)),
        "x": (("other", 1000),),
    }
    assert live["m"].canary == {"canary"}


def test_a_text_of_another_file_leaves_this_files_split() -> None:
    assert in_force(TOPOLOGY, {"split:m": "stable=1 gone=999"})["m"].parts == (("stable", 990), ("canary", 10))
    assert "x" not in in_force(TOPOLOGY, {"split:x": "gone=1000"})


def test_texts_are_read_as_they_are_written() -> None:
    parts = read_parts({"canary": "10", "stable": "990"}, TOPOLOGY.versions("m"))
    assert text_of(parts) == "stable=990 canary=10"

"""Cards that vanish."""

from __future__ import annotations

import pytest

from metrics_agent.gpu.port import NvmlState
from metrics_agent.gpu.roster import Roster, state_of

A = {"index": 0, "name": "H200", "healthy": True, "temperature_c": 40}
B = {"index": 1, "name": "H200", "healthy": True}
PART = {"mig_parent": "A", "mig_parent_index": 0, "mig_slot": 0, "healthy": True}
LOST = {"healthy": False, "reason": "gpu_lost"}


@pytest.fixture
def roster():
    return Roster()


def test_card_that_is_read_stays_as_it_is(roster):
    assert roster.complete({"A": A}) == {"A": A}


def test_card_that_vanishes_is_lost_and_has_no_values(roster):
    roster.complete({"A": A, "B": B})
    assert roster.complete({"B": B})["A"] == {"index": 0, "name": "H200"} | LOST


def test_card_that_comes_back_is_well(roster):
    roster.complete({"A": A})
    roster.complete({})
    assert roster.complete({"A": A}) == {"A": A}


@pytest.mark.parametrize("place", ["index-0", "index-1"])
def test_missing_card_is_the_one_that_tells_no_uuid(roster, place):
    roster.complete({"A": A, "B": B})
    nameless = {"index": int(place[-1]), "healthy": False, "reason": "reset_required"}
    expected = {"index": 0, "name": "H200", "healthy": False, "reason": "reset_required"}
    assert roster.complete({place: nameless, "B": B}) == {"A": expected, "B": B}


def test_nameless_card_that_was_never_known_stays(roster):
    nameless = {"index": 1, "reason": "no_permission"}
    assert roster.complete({"A": A, "index-1": nameless}) == {"A": A, "index-1": nameless}


def test_mig_device_that_a_healthy_card_has_no_longer_is_forgotten(roster):
    roster.complete({"A": A, "part": PART})
    assert roster.complete({"A": A}) == {"A": A}


def test_mig_device_of_a_lost_card_is_lost(roster):
    roster.complete({"A": A, "part": PART, "B": B})
    gpus = roster.complete({"B": B})
    assert {uuid for uuid, card in gpus.items() if card.get("reason") == "gpu_lost"} == {"A", "part"}


@pytest.mark.parametrize(
    ("expected", "reasons"),
    [
        pytest.param(NvmlState.OK, [], id="no-cards"),
        pytest.param(NvmlState.OK, [None, None], id="well"),
        pytest.param(NvmlState.PARTIAL, [None, "no_permission"], id="one-refuses"),
        pytest.param(NvmlState.NO_PERMISSION, ["no_permission", "no_permission"], id="all-refuse"),
        pytest.param(NvmlState.GPU_LOST, ["no_permission", "gpu_lost"], id="one-lost"),
        pytest.param(NvmlState.PARTIAL, ["reset_required"], id="one-in-trouble"),
    ],
)
def test_state_of_a_node_is_that_of_its_worst_card(expected, reasons):
    assert state_of({str(n): {"reason": reason} for n, reason in enumerate(reasons)}) == expected

"""The bench of the pick decides for real, over replicas that hold different parts of the prompt."""

from __future__ import annotations

import pytest

from bench import pick_cost


def test_the_fleet_is_under_load_and_prompts_are_partly_known() -> None:
    picker, works = pick_cost.fleet(8)
    best, second = picker.pick(works[0], pick_cost.NOW).chosen
    assert best.cost < second.cost
    assert {"wait", "prefill", "decode"} <= set(best.parts)
    assert picker.index_entries > 0


def test_a_row_holds_times_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pick_cost, "TARGETS_US", {2: 5.0})
    monkeypatch.setattr(pick_cost, "BUDGET_SECONDS", 0.001)
    (row,) = pick_cost.measure()
    assert (row["name"], row["target_us"]) == ("2 replicas", 5.0)
    assert min(row["pick_us"], row["sent_us"], row["sample_us"]) > 0


def test_memory_of_the_index_grows_with_its_entries() -> None:
    small, large = (pick_cost.index_bytes(replicas=4, entries=count) for count in (1_000, 10_000))
    assert 3 * small < large < 3_000_000

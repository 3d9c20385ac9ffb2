"""A window closes by time, by number or by tokens, and empties as a whole."""

from __future__ import annotations

from tidegate.domain.flow.batch import BatchWindow
from tidegate.domain.flow.settings import DEFAULT, FlowSettings, tuned

NOW = 1_800_000_000_000
SETTINGS = FlowSettings(batch_window_ms=10, batch_max_requests=3, batch_max_prefill_tokens=1000)


def test_it_is_full_by_number() -> None:
    window: BatchWindow[str] = BatchWindow()
    assert [window.add(one, 0, 1, NOW, SETTINGS) for one in "abc"] == [False, False, True]


def test_it_is_full_by_tokens() -> None:
    window: BatchWindow[str] = BatchWindow()
    assert [window.add(one, 0, 500, NOW, SETTINGS) for one in "ab"] == [False, True]


def test_it_closes_ten_ms_after_its_first_arrival() -> None:
    window: BatchWindow[str] = BatchWindow()
    window.add("a", 0, 1, NOW, SETTINGS)
    window.add("b", 0, 1, NOW + 9, SETTINGS)
    assert window.closes_ms == NOW + 10
    window.empty()
    assert window.closes_ms is None


def test_the_urgent_come_first_then_the_longest() -> None:
    window: BatchWindow[str] = BatchWindow()
    for name, priority, tokens in (("a", 0, 5), ("b", 0, 50), ("c", -1, 1), ("d", 0, 7)):
        window.add(name, priority, tokens, NOW, SETTINGS)
    assert window.empty() == ["c", "b", "d", "a"]
    assert len(window) == 0


def test_who_hangs_up_leaves_the_window() -> None:
    window: BatchWindow[str] = BatchWindow()
    window.add("a", 0, 600, NOW, SETTINGS)
    assert window.discard("a")
    assert not window.discard("a")
    assert window.closes_ms is None
    assert not window.add("b", 0, 600, NOW, SETTINGS)


def test_a_bad_tune_keeps_the_value_in_force() -> None:
    force, refused = tuned(DEFAULT, {"queue.timeout_ms": "5000", "batch.window_ms": "10"}, DEFAULT)
    assert (force.timeout_ms, force.batch_window_ms, refused) == (5000, 10, {})
    again, refused = tuned(DEFAULT, {"queue.timeout_ms": "soon", "queue.max_requests": "-1"}, force)
    assert (again.timeout_ms, again.max_requests, again.batch_window_ms) == (5000, DEFAULT.max_requests, 0)
    assert set(refused) == {"queue.timeout_ms", "queue.max_requests"}

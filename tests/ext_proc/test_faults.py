"""A replica that answers 500 to everything is named no more, though nobody is idler."""

from __future__ import annotations

from ext_proc.faults import FaultBook
from tests.ext_proc.parts import Picker, sample, topology
from tidegate.domain.outcomes.ending import ENDINGS, Ending
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.tally import Told

ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"


def told(faults: int, served: int) -> Told:
    ever = [0] * len(ENDINGS)
    ever[Ending.FAULT.place], ever[Ending.SERVED.place] = faults, served
    return Told(1000, ever, 0, 0, 0, [], [], [], ever)


def report(one: tuple[int, int], two: tuple[int, int]) -> Report:
    return Report({"phi-3": {ONE: told(*one), TWO: told(*two)}})


def serving(picker: Picker) -> FaultBook:
    picker.view.sampled([sample(ONE), sample(TWO)], picker.now_ms)
    return FaultBook(topology(2), picker.view, lambda: picker.now_ms)


def first_named(picker: Picker) -> set[str]:
    return {picker.ask().destinations[0] for _ in range(8)}


def test_who_answers_with_faults_alone_is_named_no_more() -> None:
    picker = Picker(topology(2))
    book = serving(picker)
    book.look([report((0, 0), (0, 0))])
    assert first_named(picker) == {ONE, TWO}
    book.look([report((20, 0), (0, 20))])
    assert first_named(picker) == {TWO}


def test_instances_are_added_up() -> None:
    picker = Picker(topology(2))
    book = serving(picker)
    book.look([report((0, 0), (0, 0))] * 2)
    book.look([report((3, 0), (0, 3))] * 2)
    assert first_named(picker) == {TWO}


def test_a_weight_that_comes_meanwhile_does_not_take_it_back_and_time_does() -> None:
    picker = Picker(topology(2))
    book = serving(picker)
    book.look([report((0, 0), (0, 0))])
    book.look([report((20, 0), (0, 20))])
    picker.view.weighted({"phi-3": {ONE: 500, TWO: 500}})
    assert first_named(picker) == {TWO}
    picker.now_ms += 10_000
    picker.view.sampled([sample(one, at_ms=picker.now_ms) for one in (ONE, TWO)], picker.now_ms)
    book.look([report((20, 0), (0, 90))])
    assert first_named(picker) == {ONE, TWO}


def test_a_cluster_whose_every_replica_faults_still_has_half_of_them() -> None:
    picker = Picker(topology(2))
    book = serving(picker)
    book.look([report((0, 0), (0, 0))])
    book.look([report((20, 0), (20, 0))])
    assert len(first_named(picker)) == 1

"""Who answers with faults alone is left alone, longer each time, and never more than half."""

from __future__ import annotations

from tidegate.domain.faults import MOST_TIMES, Ends, FaultWatch

AFTER, ASIDE_MS, SECOND = 5, 10_000, 1_000


class Fleet:
    """Replicas of which each look sees more ends."""

    def __init__(self, *names: str, after: int = AFTER) -> None:
        self.watch = FaultWatch(after, ASIDE_MS)
        self.ends = {name: Ends() for name in names}
        self.now_ms = 0
        self.look()

    def look(self, *, seconds: int = 1, members: int | None = None, **more: tuple[int, int]) -> frozenset[str]:
        for name, (faults, answers) in more.items():
            before = self.ends[name]
            self.ends[name] = Ends(before.faults + faults, before.answers + answers)
        self.now_ms += seconds * SECOND
        return self.watch.look(self.ends, len(self.ends) if members is None else members, self.now_ms)


def test_faults_alone_set_a_replica_aside_and_time_takes_it_back() -> None:
    fleet = Fleet("a", "b")
    assert fleet.look(a=(4, 0), b=(0, 9)) == frozenset()
    assert fleet.look(a=(1, 0), b=(0, 9)) == {"a"}
    assert fleet.look(seconds=9) == {"a"}
    assert fleet.look(seconds=1) == frozenset()


def test_an_answer_between_ends_the_count() -> None:
    fleet = Fleet("a", "b")
    fleet.look(a=(4, 0))
    fleet.look(a=(1, 1))
    assert fleet.look(a=(4, 0)) == frozenset()


def test_few_answers_among_many_faults_end_nothing() -> None:
    fleet = Fleet("a", "b")
    assert fleet.look(a=(6, 2)) == {"a"}


def test_each_time_is_longer_up_to_a_bound_and_answers_begin_anew() -> None:
    fleet = Fleet("a", "b")
    for times in [1, 2, 3, 4, 5, 6, MOST_TIMES]:
        assert fleet.look(a=(5, 0)) == {"a"}
        assert fleet.look(seconds=10 * times - 1) == {"a"}
        assert fleet.look(seconds=1) == frozenset()
    fleet.look(a=(0, 3))
    fleet.look(a=(5, 0))
    assert fleet.look(seconds=10) == frozenset()


def test_at_most_half_of_those_that_are_open_are_aside() -> None:
    fleet = Fleet("a", "b", "c", "d")
    assert fleet.look(a=(9, 0), b=(9, 0), c=(9, 0), d=(9, 0)) == {"a", "b"}
    assert fleet.look(members=1) == frozenset()


def test_what_happened_before_the_first_look_counts_not() -> None:
    watch = FaultWatch(AFTER, ASIDE_MS)
    assert watch.look({"a": Ends(500, 0)}, 2, 0) == frozenset()
    assert watch.look({"a": Ends(504, 0)}, 2, SECOND) == frozenset()


def test_counts_that_fall_begin_anew() -> None:
    watch = FaultWatch(AFTER, ASIDE_MS)
    watch.look({"a": Ends(500, 0)}, 2, 0)
    assert watch.look({"a": Ends(0, 0)}, 2, SECOND) == frozenset()
    assert watch.look({"a": Ends(5, 0)}, 2, 2 * SECOND) == {"a"}


def test_a_replica_that_nobody_counts_any_more_is_forgotten() -> None:
    fleet = Fleet("a", "b")
    fleet.look(a=(5, 0))
    del fleet.ends["a"]
    assert fleet.look(members=2) == frozenset()


def test_with_ejection_off_nothing_is_set_aside() -> None:
    assert Fleet("a", "b", after=0).look(a=(50, 0)) == frozenset()

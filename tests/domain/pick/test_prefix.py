"""The prefix index finds what a naive one finds, and never holds more than it may."""

from __future__ import annotations

import sys
from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.pick.prefix import LEAST_SHARE, PrefixIndex

BLOCK = 100


def prompt(*path: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Chained marks: each stands for the path so far."""
    marks = tuple(hash(path[: n + 1]) & 0xFFFFFFFFFFFFFFFF for n in range(len(path)))
    return marks, tuple(BLOCK * (n + 1) for n in range(len(path)))


def spread(index: PrefixIndex, marks: tuple[int, ...], ends: tuple[int, ...], slots: int) -> list[int]:
    """Cached tokens by slot."""
    found = index.cached(marks, ends)
    return [next((tokens for bits, tokens in found if bits >> slot & 1), 0) for slot in range(slots)]


class Naive:
    """One LRU of paths a replica, looked up mark by mark."""

    def __init__(self, slots: int, capacity: int) -> None:
        self.held = [OrderedDict[int, None]() for _ in range(slots)]
        self.most = capacity // BLOCK

    def put(self, slot: int, marks: tuple[int, ...]) -> None:
        held = self.held[slot]
        for mark in reversed(marks):
            held[mark] = None
            held.move_to_end(mark)
        while len(held) > self.most:
            held.popitem(last=False)

    def cached(self, slot: int, marks: tuple[int, ...]) -> int:
        count = 0
        for mark in marks:
            if mark not in self.held[slot]:
                break
            count += BLOCK
        return count


PATHS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)


@given(st.lists(st.tuples(st.integers(0, 3), PATHS), max_size=60), PATHS)
def test_matches_equal_a_naive_reference(puts: list[tuple[int, tuple[int, ...]]], asked: tuple[int, ...]) -> None:
    index, naive = PrefixIndex(), Naive(4, 15 * BLOCK)
    for slot in range(4):
        index.add(slot, 15 * BLOCK)
    for slot, path in puts:
        marks, ends = prompt(*path)
        index.put(slot, marks, ends)
        naive.put(slot, marks)
    marks, ends = prompt(*asked)
    expected = [naive.cached(slot, marks) for slot in range(4)]
    assert spread(index, marks, ends, 4) == expected
    assert [index.cached_at(slot, marks, ends) for slot in range(4)] == expected
    assert len(index) == sum(len(held) for held in naive.held)


@given(st.lists(PATHS, max_size=80), st.integers(1, 20))
def test_a_replica_never_holds_more_tokens_than_its_cache(paths: list[tuple[int, ...]], blocks: int) -> None:
    index = PrefixIndex()
    index.add(0, blocks * BLOCK)
    for path in paths:
        index.put(0, *prompt(*path))
        assert 0 <= index.tokens(0) <= blocks * BLOCK


def test_entries_are_bounded_however_many_replicas_there_are() -> None:
    index = PrefixIndex(most_entries=1000)
    for slot in range(4):
        index.add(slot, sys.maxsize)
    for n in range(1500):
        index.put(n % 4, *prompt(n, 1))
    assert len(index) <= 1000
    for slot in range(4, 10):
        index.add(slot, sys.maxsize)
    assert max(index.tokens(slot) for slot in range(10)) <= max(LEAST_SHARE, 100) * BLOCK


def test_a_smaller_cache_forgets_the_ends_first() -> None:
    index = PrefixIndex()
    index.add(0, 10 * BLOCK)
    marks, ends = prompt(1, 2, 3, 4)
    index.put(0, marks, ends)
    index.resize(0, 2 * BLOCK)
    assert index.cached_at(0, marks, ends) == 2 * BLOCK


def test_a_replica_that_leaves_or_begins_anew_holds_nothing() -> None:
    index = PrefixIndex()
    marks, ends = prompt(1, 2)
    for slot in range(2):
        index.add(slot, 10 * BLOCK)
        index.put(slot, marks, ends)
    index.clear(0)
    assert spread(index, marks, ends, 2) == [0, 200]
    index.drop(1)
    assert (len(index), index.cached(marks, ends)) == (0, [])

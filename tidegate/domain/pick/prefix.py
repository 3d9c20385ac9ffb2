"""Which replica holds which beginning of a prompt, as far as our own dispatches tell.

    marks of a prompt:   m1 ── m2 ── m3            chained: who holds m3 holds m1 and m2
    holders:             m1 → 0b1011, m2 → 0b0011  one bit a replica
    replica 0:           m3, m2, m1                least recently used first, bounded in tokens and in entries

A prompt's marks are touched from its end to its beginning, so that the end goes before the beginning, as in an engine
that frees a chain's tail first. What a replica holds is therefore always closed towards the beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

MOST_ENTRIES: Final = 500_000
"""(replica, mark) pairs of one index at most: memory stays bounded at any number of replicas."""
LEAST_SHARE: Final = 64
"""Entries that a replica may always have."""


class Holding:
    """What one replica holds: tokens of the prompt part that ends at each mark, least recently used first."""

    __slots__ = ("bit", "capacity_tokens", "marks", "tokens")

    def __init__(self, slot: int, capacity_tokens: float) -> None:
        self.bit = 1 << slot
        self.capacity_tokens = capacity_tokens
        self.marks: OrderedDict[int, int] = OrderedDict()
        self.tokens = 0


class PrefixIndex:
    """Marks by replica slot, 0… Not safe across threads."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most = most_entries
        self._limit = most_entries
        self._holders: dict[int, int] = {}
        self._holdings: dict[int, Holding] = {}

    def __len__(self) -> int:
        return sum(len(holding.marks) for holding in self._holdings.values())

    def tokens(self, slot: int) -> int:
        """Tokens that the replica is taken to hold."""
        return self._holdings[slot].tokens

    def add(self, slot: int, capacity_tokens: float) -> None:
        """A replica with an empty cache takes the slot."""
        self._holdings[slot] = Holding(slot, capacity_tokens)
        self._share()

    def drop(self, slot: int) -> None:
        """Forget all of a replica; its slot is free."""
        holding = self._holdings.pop(slot)
        self._shrink(holding, 0, 0)
        self._share()

    def clear(self, slot: int) -> None:
        """The replica's cache is empty: it began anew."""
        self._shrink(self._holdings[slot], 0, 0)

    def resize(self, slot: int, capacity_tokens: float) -> None:
        """The replica keeps at most so many tokens."""
        holding = self._holdings[slot]
        holding.capacity_tokens = capacity_tokens
        if holding.tokens > capacity_tokens:
            self._shrink(holding, self._limit, capacity_tokens)

    def cached(self, marks: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
        """(bits of slots, tokens) of the replicas that hold a beginning of the prompt; each in one pair at most."""
        found: list[tuple[int, int]] = []
        holders, bits, last = self._holders, -1, 0
        for mark, end in zip(marks, ends, strict=True):
            more = holders.get(mark, 0) & bits
            if more != bits:
                if last:
                    found.append((bits & ~more, last))
                bits = more
                if not more:
                    return found
            last = end
        if last:
            found.append((bits, last))
        return found

    def cached_at(self, slot: int, marks: Sequence[int], ends: Sequence[int]) -> int:
        """Tokens of the prompt's beginning that one replica holds."""
        held, best = self._holdings[slot].marks, 0
        for mark, end in zip(marks, ends, strict=True):
            if mark not in held:
                break
            best = end
        return best

    def put(self, slot: int, marks: Sequence[int], ends: Sequence[int]) -> None:
        """The replica computes the prompt: it holds all of its marks, as its latest."""
        holding, holders = self._holdings[slot], self._holders
        held, bit = holding.marks, holding.bit
        for at in range(len(marks) - 1, -1, -1):
            mark = marks[at]
            if mark in held:
                held.move_to_end(mark)
            else:
                held[mark] = tokens = ends[at] - ends[at - 1] if at else ends[0]
                holding.tokens += tokens
                holders[mark] = holders.get(mark, 0) | bit
        if holding.tokens > holding.capacity_tokens or len(held) > self._limit:
            self._shrink(holding, self._limit, holding.capacity_tokens)

    def _shrink(self, holding: Holding, entries: int, tokens: float) -> None:
        held, holders, bit = holding.marks, self._holders, holding.bit
        while held and (len(held) > entries or holding.tokens > tokens):
            mark, freed = held.popitem(last=False)
            holding.tokens -= freed
            left = holders[mark] & ~bit
            if left:
                holders[mark] = left
            else:
                del holders[mark]

    def _share(self) -> None:
        """Every replica may have an equal part of all entries."""
        limit = max(LEAST_SHARE, self._most // max(1, len(self._holdings)))
        if limit < self._limit:
            for holding in self._holdings.values():
                self._shrink(holding, limit, holding.capacity_tokens)
        self._limit = limit

"""The blocks of one sequence: what the prefix cache has for it, what it adds, what it gives back."""

from __future__ import annotations

from simulator.engine.blocks import BlockPool
from simulator.engine.request import Sequence


class Holdings:
    """Moves blocks between a pool and sequences. Only this module writes a sequence's `refs` and `private`."""

    __slots__ = ("_caching", "_pool", "_size")

    def __init__(self, pool: BlockPool, block_size: int, prefix_caching: bool) -> None:
        self._pool, self._size, self._caching = pool, block_size, prefix_caching

    def blocks(self, tokens: int) -> int:
        """Blocks that so many tokens fill or begin."""
        return -(-tokens // self._size)

    def hits(self, sequence: Sequence) -> list[int]:
        """The leading blocks that are cached; never all tokens, since the last one has to be computed."""
        found: list[int] = []
        if self._caching:
            for block in range((sequence.target - 1) // self._size):
                block_hash = sequence.hash_at(block)
                if block_hash is None or not self._pool.holds(block_hash):
                    break
                found.append(block_hash)
        return found

    def fits(self, sequence: Sequence, hits: list[int]) -> bool:
        """Whether all of a sequence's tokens so far find free blocks, its hits being there already."""
        return self.blocks(sequence.target) - len(hits) <= self._pool.free - self._pool.idle_among(hits)

    def begin(self, sequence: Sequence, hits: list[int], tokens: int) -> None:
        """Give a sequence that fits its hits, and private blocks for the rest of `tokens`."""
        self._pool.share(hits)
        sequence.refs, sequence.committed = hits, len(hits)
        sequence.private = self.blocks(tokens) - len(hits)
        self._pool.take(sequence.private)

    def extend(self, sequence: Sequence, count: int) -> bool:
        """Give `count` private blocks more, or False and none."""
        if not self._pool.take(count):
            return False
        sequence.private += count
        return True

    def commit(self, sequence: Sequence) -> None:
        """Put the full blocks of known content into the prefix cache."""
        full = sequence.computed // self._size if self._caching else 0
        while sequence.committed < full:
            block_hash = sequence.hash_at(sequence.committed)
            if block_hash is None:
                return
            sequence.committed += 1
            if self._pool.commit(block_hash):
                sequence.refs.append(block_hash)
                sequence.private -= 1

    def release(self, sequence: Sequence) -> None:
        """Take all blocks back; those with a hash stay cached until they are evicted."""
        self.commit(sequence)
        self._pool.drop(sequence.refs, sequence.private)
        sequence.refs, sequence.private, sequence.committed, sequence.computed = [], 0, 0, 0

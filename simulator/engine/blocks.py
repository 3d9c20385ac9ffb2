"""KV blocks and the prefix cache. A block has no object: blocks without a hash are only counted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class BlockPool:
    """A fixed number of blocks: blank, private to a sequence, or hashed (referenced, or idle and evictable).

    Blank and idle blocks are free. Idle ones keep their contents until they are needed, least recently used first.
    """

    __slots__ = ("_blank", "_idle", "_refs", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._blank = total
        self._refs: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be taken, evictable ones included."""
        return self._blank + len(self._idle)

    @property
    def cached(self) -> int:
        """Blocks with a hash, in use or idle."""
        return len(self._refs)

    def holds(self, block_hash: int) -> bool:
        """Whether a block of that hash is there."""
        return block_hash in self._refs

    def idle_among(self, hashes: Iterable[int]) -> int:
        """How many of these hashed blocks are free."""
        return sum(1 for h in hashes if h in self._idle)

    def share(self, hashes: Iterable[int]) -> None:
        """Reference blocks that are there."""
        for h in hashes:
            self._refs[h] += 1
            self._idle.pop(h, None)

    def take(self, count: int) -> bool:
        """Take `count` private blocks, evicting as needed; False, and nothing taken, when there are fewer."""
        if count > self.free:
            return False
        while self._blank < count:
            evicted, _ = self._idle.popitem(last=False)
            del self._refs[evicted]
            self._blank += 1
        self._blank -= count
        return True

    def commit(self, block_hash: int) -> bool:
        """Turn a private block into a hashed, referenced one; False when that content is there already."""
        if block_hash in self._refs:
            return False
        self._refs[block_hash] = 1
        return True

    def drop(self, hashes: list[int], private: int) -> None:
        """Give blocks back. A chain's tail becomes evictable before its head, which more prompts share."""
        self._blank += private
        for h in reversed(hashes):
            self._refs[h] -= 1
            if not self._refs[h]:
                self._idle[h] = None

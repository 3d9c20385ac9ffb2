"""Which replica got which prefixes: a router's approximate index, as large as the engines' caches."""

from __future__ import annotations

from collections import OrderedDict

from simulator.lab.call import Call
from simulator.lab.policies.in_flight import InFlight
from simulator.lab.policy import Setting


class PrefixBooks(InFlight):
    """In-flight counts, and the blocks sent to each replica, least recently used ones forgotten."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._blocks = setting.params.kv_blocks - 1
        self._sent: list[OrderedDict[int, None]] = [OrderedDict() for _ in setting.fleet]

    def sent(self, call: Call, replica: int, now: float) -> None:
        """Its blocks will be there; a chain's end is forgotten before its beginning."""
        super().sent(call, replica, now)
        books = self._sent[replica]
        for block in reversed(call.blocks):
            books[block] = None
            books.move_to_end(block)
        while len(books) > self._blocks:
            books.popitem(last=False)

    def matched(self, call: Call, replica: int) -> int:
        """Leading blocks of the call that were sent there."""
        books = self._sent[replica]
        for count, block in enumerate(call.blocks):
            if block not in books:
                return count
        return len(call.blocks)

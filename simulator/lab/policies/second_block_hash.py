"""A hash of the prompt's beginning names the replica: the second block, or the first where there is one alone.

The first block of a real trace is one system prompt that all requests share.
"""

from __future__ import annotations

from xxhash import xxh64_intdigest

from simulator.lab.call import Call
from simulator.lab.policy import Plain, Setting


class SecondBlockHash(Plain):
    """Blind to load. A call without blocks is spread by its number."""

    def __init__(self, setting: Setting) -> None:
        self._count = len(setting.fleet)

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """The same replica for the same beginning."""
        key = call.blocks[1] if len(call.blocks) > 1 else (call.blocks[0] if call.blocks else -1 - call.number)
        return xxh64_intdigest(b"%d" % key) % self._count

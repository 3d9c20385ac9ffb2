"""One after the other."""

from __future__ import annotations

from simulator.lab.call import Call
from simulator.lab.policy import Plain, Setting


class RoundRobin(Plain):
    """Begins at a random replica, as one of several pickers would."""

    def __init__(self, setting: Setting) -> None:
        self._count = len(setting.fleet)
        self._next = setting.rng.randrange(self._count)

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """The one whose turn it is."""
        chosen, self._next = self._next, (self._next + 1) % self._count
        return chosen

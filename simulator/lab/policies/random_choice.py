"""Any replica, each with the same chance."""

from __future__ import annotations

from simulator.lab.call import Call
from simulator.lab.policy import Plain, Setting


class RandomChoice(Plain):
    """Knows nothing."""

    def __init__(self, setting: Setting) -> None:
        self._count, self._rng = len(setting.fleet), setting.rng

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """Drawn anew for each call."""
        return self._rng.randrange(self._count)

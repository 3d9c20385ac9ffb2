"""A router's count of its own requests in flight, exact: what balancers by load go by."""

from __future__ import annotations

from simulator.lab.call import Call
from simulator.lab.policy import Plain, Setting


class InFlight(Plain):
    """`in_flight` counts by replica from the choice to the last token."""

    def __init__(self, setting: Setting) -> None:
        self.in_flight = [0] * len(setting.fleet)
        self._rng = setting.rng

    def sent(self, call: Call, replica: int, now: float) -> None:  # noqa: ARG002
        """One more."""
        self.in_flight[replica] += 1

    def ended(self, call: Call, replica: int, now: float) -> None:  # noqa: ARG002
        """One less."""
        self.in_flight[replica] -= 1

    def least_loaded(self, among: list[int] | None = None) -> int:
        """A replica with the fewest requests in flight, of all or of `among`; equals by chance."""
        numbers = among if among is not None else range(len(self.in_flight))
        fewest = min(self.in_flight[number] for number in numbers)
        return self._rng.choice([number for number in numbers if self.in_flight[number] == fewest])

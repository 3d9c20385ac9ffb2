"""Of two replicas drawn, the one with fewer requests of ours in flight."""

from __future__ import annotations

from simulator.lab.call import Call
from simulator.lab.policies.in_flight import InFlight


class PowerOfTwo(InFlight):
    """As Envoy's least request and most routers' power_of_two do."""

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """The less loaded of two different ones."""
        count = len(self.in_flight)
        return self.least_loaded(self._rng.sample(range(count), min(2, count)))

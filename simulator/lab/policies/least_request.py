"""The replica with the fewest requests of ours in flight."""

from __future__ import annotations

from simulator.lab.call import Call
from simulator.lab.policies.in_flight import InFlight


class LeastRequest(InFlight):
    """Over all replicas, not over two drawn: Envoy's with a full scan. Equals by chance."""

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """The least loaded one."""
        return self.least_loaded()

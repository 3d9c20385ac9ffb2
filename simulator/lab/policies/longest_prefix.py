"""The replica that holds the longest prefix; among equals the least loaded."""

from __future__ import annotations

from simulator.lab.call import Call
from simulator.lab.policies.prefix_books import PrefixBooks


class LongestPrefix(PrefixBooks):
    """Load counts between equals alone."""

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """One match decides, however loaded the replica is."""
        matches = [self.matched(call, number) for number in range(len(self.in_flight))]
        longest = max(matches)
        return self.least_loaded([number for number, match in enumerate(matches) if match == longest])

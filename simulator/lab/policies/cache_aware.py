"""Cache-aware with imbalance thresholds, as the Rust routers do (vllm-router, smg).

When the loads are far apart (max − min above 64 and max above 1.5 × min) the shortest queue gets the request; else
the replica whose tree matches most, if that is more than 0.3 of the prompt; else the least loaded one.
"""

from __future__ import annotations

from typing import Final

from simulator.lab.call import Call
from simulator.lab.policies.prefix_books import PrefixBooks

MATCH_RATIO: Final = 0.3
IMBALANCE_REQUESTS: Final = 64
IMBALANCE_RATIO: Final = 1.5


class CacheAware(PrefixBooks):
    """Between equal matches the least loaded."""

    def choose(self, call: Call, now: float) -> int | None:  # noqa: ARG002
        """By balance where it is lost, by the prefix where it is long, by load else."""
        most, fewest = max(self.in_flight), min(self.in_flight)
        if (most - fewest > IMBALANCE_REQUESTS and most > IMBALANCE_RATIO * fewest) or not call.blocks:
            return self.least_loaded()
        matches = [self.matched(call, number) for number in range(len(self.in_flight))]
        longest = max(matches)
        if longest / len(call.blocks) <= MATCH_RATIO:
            return self.least_loaded()
        return self.least_loaded([number for number, match in enumerate(matches) if match == longest])

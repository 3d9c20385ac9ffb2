"""The policies of the lab, one a file. Adding one means a file here and its line in POLICIES.

A baseline gets all that its router really has: exact counts of its own requests in flight, a prefix index of the
caches' size, samples where it takes any. The oracle alone looks into the engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simulator.lab.policies.cache_aware import CacheAware
from simulator.lab.policies.least_request import LeastRequest
from simulator.lab.policies.longest_prefix import LongestPrefix
from simulator.lab.policies.oracle import Oracle
from simulator.lab.policies.pick import PickPolicy
from simulator.lab.policies.power_of_two import PowerOfTwo
from simulator.lab.policies.random_choice import RandomChoice
from simulator.lab.policies.round_robin import RoundRobin
from simulator.lab.policies.second_block_hash import SecondBlockHash
from simulator.lab.policies.weighted_sum import WeightedSum
from simulator.lab.policy import Entry

POLICIES: Final[Mapping[str, Entry]] = {
    "pick": Entry(PickPolicy, sampled=True),
    "round_robin": Entry(RoundRobin),
    "random": Entry(RandomChoice),
    "power_of_two": Entry(PowerOfTwo),
    "least_request": Entry(LeastRequest),
    "longest_prefix": Entry(LongestPrefix),
    "second_block_hash": Entry(SecondBlockHash),
    "cache_aware": Entry(CacheAware),
    "weighted_sum": Entry(WeightedSum, sampled=True, sample_ms=50.0, delivery_ms=(2.0, 10.0)),
    "oracle": Entry(Oracle),
}

ORACLE: Final = "oracle"
"""The limit, which is no baseline."""

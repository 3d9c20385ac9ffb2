"""Cost of a replica's queue, in running requests."""

from __future__ import annotations

from tidegate.domain.pick.candidate import Candidate, Moment

WAITING_COST = 8
"""Running requests that one waiting request costs.

A running request slows a step; a waiting one means that the batch or the KV cache is full, and a request that
comes after it waits for whole requests to end.
"""


def queue_cost(candidate: Candidate, moment: Moment) -> float:
    """8·waiting + running + our unseen dispatches, each of which costs as much as where it will stand.

    At least 0. A count that the engine does not tell adds nothing; the replica's own dispatches still spread.
    """
    sample = candidate.sample
    waiting = (sample.waiting or 0) if sample else 0
    running = (sample.running or 0) if sample else 0
    own = moment.dispatched.get(candidate.address, 0)
    return WAITING_COST * waiting + running + own * (WAITING_COST if waiting else 1)

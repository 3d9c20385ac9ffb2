"""Who may be chosen. A filter returns True for a replica that stays."""

from __future__ import annotations

from tidegate.domain.pick.candidate import Candidate, Moment


def addressable(candidate: Candidate, _: Moment) -> bool:
    """Envoy's name of the replica is known."""
    return candidate.destination is not None


def weighted(candidate: Candidate, _: Moment) -> bool:
    """The published weight is not 0: that is how pins, drains and faults say "no new traffic"."""
    return candidate.weight != 0


def fresh(candidate: Candidate, moment: Moment) -> bool:
    """There is a sample, and it still says something."""
    sample = candidate.sample
    return sample is not None and sample.is_fresh(moment.now_ms, moment.sample_ttl_ms)


def takes_traffic(candidate: Candidate, _: Moment) -> bool:
    """The last known state is one that serves. override_host sends to draining hosts, so this must not."""
    return candidate.sample is not None and candidate.sample.status.takes_traffic


def known_closed(candidate: Candidate, moment: Moment) -> bool:
    """Nothing can be sent there: weight 0, or freshly seen not to serve. A stale sample proves nothing."""
    closed = fresh(candidate, moment) and not takes_traffic(candidate, moment)
    return closed or not weighted(candidate, moment)

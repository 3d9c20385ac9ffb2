"""What ext_proc knows of the fleet, in memory: the replicas of each cluster, as samples and weights arrive.

It holds the last known state for as long as nothing better comes, so a lost store changes no routing; age alone
makes a sample worthless. All methods are synchronous and belong to the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from tidegate.buckets import Buckets
from tidegate.domain.membership import Membership, Place
from tidegate.domain.pick.cost import PREFILL, ROOM, WAIT
from tidegate.domain.pick.picker import ClusterPicker
from tidegate.domain.pick.record import DispatchRecord
from tidegate.domain.pick.settings import DEFAULT
from tidegate.domain.pick.verdict import Pick, Scored, Verdict
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import EndpointSample
from tidegate.domain.topology import Cluster, LbPolicy, Topology, split_address

Told = Callable[[str, DispatchRecord], None]
"""Cluster and dispatch, for other processes."""
EASED = Pick(Verdict.UNKNOWN)
"""Envoy's weights decide."""
EXPECTED_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def destination_of(address: str) -> str | None:
    """`ip:port` as Envoy writes it when `address` names an IP, None when it names a host or is malformed."""
    try:
        host, port = split_address(address)
        ip = ip_address(host)
    except ValueError:
        return None
    return destination(ip, port)


def destination(ip: IPv4Address | IPv6Address, port: int) -> str:
    """`ip:port` as Envoy writes it."""
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a cluster.

    `address` is its identity in Redis (`host:port`), `destination` the `ip:port` that Envoy knows it by (None
    until its host name is resolved), `sample` the newest one (None: never seen, or void), `weight` what the controller
    published, 0…1000 (None: nothing yet). Envoy prefers the lowest `priority`.
    """

    address: str
    destination: str | None = None
    sample: EndpointSample | None = None
    weight: int | None = None
    priority: int = 0

    def closed(self, now_ms: int, ttl_ms: int) -> bool:
        """Nothing can be sent there: weight 0, or freshly seen not to serve. A stale sample proves nothing."""
        sample = self.sample
        shut = sample is not None and sample.is_fresh(now_ms, ttl_ms) and not sample.status.takes_traffic
        return shut or self.weight == 0


class ClusterView:
    """Replicas of one cluster and our own dispatches to them. `told` hears of each.

    `picks` counts them by address, `expected` holds the seconds until their first token, as the picker expected them.
    `unserved_at_ms` is when a request last found no replica.
    """

    def __init__(self, cluster: Cluster, sample_ttl_ms: int, told: Told | None = None) -> None:
        self.cluster = cluster
        self.picker = ClusterPicker(DEFAULT, sample_ttl_ms=sample_ttl_ms)
        self._ttl_ms, self._tell = sample_ttl_ms, told
        self._in_file = {endpoint.address: endpoint.priority for endpoint in cluster.endpoints}
        self._replicas: dict[str, Replica] = {}
        self._aside: frozenset[str] = frozenset()
        self.picks: Counter[str] = Counter()
        self.expected = Buckets(EXPECTED_SECONDS)
        self._told = False
        self.unserved_at_ms: int | None = None
        self._listing: dict[str, set[str]] = {}
        for address in sorted(self._in_file):
            self._put(self._new(address))

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Every known replica."""
        return tuple(self._replicas.values())

    @property
    def listed(self) -> Iterable[str]:
        """Names of models that its replicas list, adapters among them."""
        return self._listing

    def pick(self, work: Work, now_ms: int, *, hold_seconds: float | None = None, spare_ratio: float = 0.0) -> Pick:
        """Where the request goes, counted as dispatched to the first that is named.

        Replicas that list `work.adapter` are preferred: others are chosen where none of those can be. UNKNOWN, so that
        Envoy's weights decide, also in `weighted` clusters and where no replica is known because the store has not
        answered yet. `hold_seconds` and `spare_ratio` are the picker's.
        """
        pick = self._pick(work, now_ms, hold_seconds, spare_ratio)
        if pick.verdict is Verdict.CLOSED:
            self.unserved_at_ms = now_ms
        return pick

    def _pick(self, work: Work, now_ms: int, hold_seconds: float | None, spare_ratio: float) -> Pick:
        if self.cluster.lb is not LbPolicy.PICK:
            return Pick(Verdict.CLOSED) if self._all_closed(now_ms) else EASED
        if not self._replicas:
            return Pick(Verdict.CLOSED) if self._told else EASED
        having = self._listing.get(work.adapter) if work.adapter is not None else None
        pick = self.picker.pick(work, now_ms, hold_seconds=hold_seconds, among=having, spare_ratio=spare_ratio)
        if pick.chosen:
            self._count(pick.chosen[0])
            handle = self.picker.sent(pick.chosen[0].address, work, now_ms)
            record = self.picker.dispatch_record(handle) if self._tell is not None else None
            if self._tell is not None and record is not None:
                self._tell(self.cluster.name, record)
        return pick

    def _count(self, chosen: Scored) -> None:
        self.picks[chosen.address] += 1
        if (prefill := chosen.parts.get(PREFILL)) is not None:
            self.expected.add(prefill + chosen.parts[WAIT] + chosen.parts.get(ROOM, 0.0))

    def sampled(self, sample: EndpointSample, now_ms: int) -> None:
        """A sample arrived. One that is older than a known fresh one is late and dropped."""
        known = self._replicas.get(sample.address) or self._new(sample.address)
        last = known.sample
        late = last is not None and sample.sampled_at_ms < last.sampled_at_ms
        if late and last is not None and last.is_fresh(now_ms, self._ttl_ms):
            return
        if sample.address not in self._replicas:
            self._put(known)
        self._replicas[sample.address] = replace(known, sample=sample)
        self.picker.sampled(sample, now_ms)
        if sample.models and (last is None or sample.models != last.models):
            self._lists(sample.address, sample.models)

    def weighted(self, weights: Mapping[str, int]) -> None:
        """The controller's weights. None at all means that nobody decided yet: the known ones stay."""
        if not weights:
            return
        for one in self.replicas:
            weight = weights.get(one.address)
            if weight != one.weight:
                self._put(replace(one, weight=weight))

    def set_aside(self, addresses: frozenset[str]) -> None:
        """From the next pick on these get nothing new, whatever their weight, and all others do again."""
        changed, self._aside = addresses ^ self._aside, addresses
        for address in changed & self._replicas.keys():
            self._put(self._replicas[address])

    def reduced(self, parts: Mapping[str, float]) -> None:
        """From the next pick on these addresses get such parts (0…1) of what they would get, and all others all."""
        self.picker.thin(parts)

    def open(self, now_ms: int) -> int:
        """How many replicas may be sent to, were none of them aside."""
        return sum(not one.closed(now_ms, self._ttl_ms) for one in self._replicas.values())

    def registered(self, addresses: frozenset[str], now_ms: int) -> None:
        """The members that registered: a replica that is none, nor in the file, nor fresh, is gone."""
        self._told = True
        for address in sorted(addresses - self._replicas.keys()):
            self._put(self._new(address))
        for one in self.replicas:
            alive = one.sample is not None and one.sample.is_fresh(now_ms, self._ttl_ms)
            if not alive and one.address not in addresses and one.address not in self._in_file:
                self._drop(one.address)

    def left(self, address: str) -> None:
        """Its agent watches it no more: what was sampled is void; one that is not in the file is gone."""
        known = self._replicas.get(address)
        if known is None:
            return
        self._drop(address)
        if address in self._in_file:
            self._put(replace(known, sample=None))

    def resolved(self, address: str, found: Sequence[str]) -> None:
        """A host name has these `ip:port`s, at least one. The one in use stays for as long as it is among them."""
        known = self._replicas.get(address)
        if known is not None and known.destination not in found:
            self._put(replace(known, destination=found[0]))

    def serves(self, now_ms: int) -> bool:
        """Whether any replica is known and may take a request."""
        return any(not one.closed(now_ms, self._ttl_ms) for one in self._replicas.values())

    def _all_closed(self, now_ms: int) -> bool:
        if not self._replicas:
            return self._told
        return all(one.closed(now_ms, self._ttl_ms) for one in self._replicas.values())

    def _lists(self, address: str, names: Iterable[str]) -> None:
        """A replica lists these names and no others. One that says nothing keeps what it said last."""
        for listing in self._listing.values():
            listing.discard(address)
        for name in names:
            self._listing.setdefault(name, set()).add(address)
        self._listing = {name: listing for name, listing in self._listing.items() if listing}

    def _new(self, address: str) -> Replica:
        return Replica(address, destination_of(address), priority=self._in_file.get(address, 0))

    def _put(self, one: Replica) -> None:
        self._replicas[one.address] = one
        self.picker.joined(one.address, one.destination, one.priority)
        self.picker.weighed(one.address, 0 if one.address in self._aside else one.weight)

    def _drop(self, address: str) -> None:
        del self._replicas[address]
        self.picker.left(address)
        self.picks.pop(address, None)
        self._lists(address, ())


class FleetView:
    """Every cluster of the file. What arrives for a cluster that is not in it is ignored."""

    def __init__(self, topology: Topology, sample_ttl_ms: int, told: Told | None = None) -> None:
        self._clusters = {c.name: ClusterView(c, sample_ttl_ms, told) for c in topology.clusters}
        self._membership = Membership()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clusters, in file order."""
        return tuple(self._clusters)

    def cluster(self, name: str) -> ClusterView:
        """The view of a cluster of the file."""
        return self._clusters[name]

    def samples(self) -> dict[str, list[EndpointSample]]:
        """The last sample of each replica, by cluster, however old."""
        return {
            name: [r.sample for r in view.replicas if r.sample is not None] for name, view in self._clusters.items()
        }

    def cluster_listing(self, model: str) -> str | None:
        """The first cluster, in file order, of which a replica lists `model`; None when none does."""
        return next((name for name, view in self._clusters.items() if model in view.listed), None)

    def sampled(self, samples: Iterable[EndpointSample], now_ms: int) -> None:
        """Samples arrived."""
        for sample in samples:
            if sample.cluster in self._clusters:
                self._clusters[sample.cluster].sampled(sample, now_ms)

    def shares_with(self, others: int, place: int) -> None:
        """So many other processes pick beside this one, whose place among all is `place`, 0 to `others`."""
        for view in self._clusters.values():
            view.picker.shares_with(others, place)

    def sent_elsewhere(self, cluster: str, record: DispatchRecord, now_ms: int) -> None:
        """Another process dispatched a request."""
        if cluster in self._clusters:
            self._clusters[cluster].picker.sent_elsewhere(record, now_ms)

    def reduced(self, parts: Mapping[str, Mapping[str, float]]) -> None:
        """The parts (0…1) of what they would get that replicas are reduced to, by cluster and address."""
        for name, view in self._clusters.items():
            view.reduced(parts.get(name, {}))

    def unserved(self) -> dict[str, int]:
        """When a request last found no replica, Unix milliseconds by cluster, where that ever happened."""
        times = ((name, view.unserved_at_ms) for name, view in self._clusters.items())
        return {name: at_ms for name, at_ms in times if at_ms is not None}

    def weighted(self, weights: Mapping[str, Mapping[str, int]]) -> None:
        """The controller's weights by cluster and address."""
        for name, view in self._clusters.items():
            view.weighted(weights.get(name, {}))

    def left(self, places: Iterable[tuple[str, str]]) -> None:
        """Replicas left on purpose: (cluster, address)."""
        for cluster, address in places:
            if cluster in self._clusters:
                self._clusters[cluster].left(address)

    def registered(
        self, index: Iterable[tuple[str, str, int]], now_ms: int, departed: AbstractSet[Place] = frozenset()
    ) -> None:
        """The index of registered replicas, (cluster, address, sampled_at_ms), and who left on purpose."""
        self._membership = self._membership.after(index, now_ms, departed)
        by_cluster: dict[str, set[str]] = {}
        for cluster, address in sorted(self._membership.members):
            by_cluster.setdefault(cluster, set()).add(address)
        for name, view in self._clusters.items():
            view.registered(frozenset(by_cluster.get(name, ())), now_ms)

    def host_names(self) -> set[str]:
        """Addresses that name a host, not an IP."""
        known = (one.address for view in self._clusters.values() for one in view.replicas)
        return {address for address in known if destination_of(address) is None}

    def resolved(self, address: str, found: Sequence[str]) -> None:
        """A host name has these `ip:port`s, at least one."""
        for view in self._clusters.values():
            view.resolved(address, found)

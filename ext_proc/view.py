"""What ext_proc knows of the fleet, in memory: candidates by cluster, replaced as samples and weights arrive.

It holds the last known state for as long as nothing better comes, so a lost store changes no routing; age alone
makes a sample worthless. All methods are synchronous and belong to the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address

from tidegate.domain.membership import Membership, Place
from tidegate.domain.pick.candidate import Candidate, Moment
from tidegate.domain.pick.choose import can_serve, choose
from tidegate.domain.pick.ledger import DispatchLedger
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.sample import EndpointSample
from tidegate.domain.topology import Cluster, LbPolicy, Topology, split_address


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


class ClusterView:
    """Replicas of one cluster and our own dispatches to them."""

    def __init__(self, cluster: Cluster, sample_ttl_ms: int) -> None:
        self.cluster = cluster
        self._ttl_ms = sample_ttl_ms
        self._in_file = frozenset(endpoint.address for endpoint in cluster.endpoints)
        self._candidates = {address: _candidate(address) for address in sorted(self._in_file)}
        self._ordered = tuple(self._candidates.values())
        self._ledger = DispatchLedger()
        self._picks = 0
        self._told = False
        self._listing: dict[str, set[str]] = {}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every known replica."""
        return self._ordered

    @property
    def listed(self) -> Iterable[str]:
        """Names of models that its replicas list, adapters among them."""
        return self._listing

    def destinations(self, now_ms: int, adapter: str | None = None) -> tuple[str, ...]:
        """Where the next request goes: up to two `ip:port`, best first, counted as dispatched to the first.

        Replicas that list `adapter` are preferred: others are chosen where none of those can be. Empty when
        Envoy's weights decide, as they do where no replica is known because the store has not answered yet. Raises
        Refusal (no-endpoint) when every replica is known to be closed.
        """
        moment = Moment(now_ms, self._ttl_ms, self._ledger.counts, self._picks)
        if (self._ordered or self._told) and not can_serve(self._ordered, moment):
            raise Refusal(Reason.NO_ENDPOINT, f"No endpoint of `{self.cluster.name}` can serve.")
        if self.cluster.lb is not LbPolicy.PICK:
            return ()
        chosen = choose(self._having(adapter), moment) if adapter in self._listing else ()
        chosen = chosen or choose(self._ordered, moment)
        if chosen:
            self._picks += 1
            self._ledger.dispatched(chosen[0].address, now_ms)
        return tuple(c.destination for c in chosen if c.destination is not None)

    def sampled(self, sample: EndpointSample, now_ms: int) -> None:
        """A sample arrived. One that is older than a known fresh one is late and dropped."""
        known = self._candidates.get(sample.address) or _candidate(sample.address)
        last = known.sample
        late = last is not None and sample.sampled_at_ms < last.sampled_at_ms
        if late and last is not None and last.is_fresh(now_ms, self._ttl_ms):
            return
        self._ledger.sampled(sample.address, sample.sampled_at_ms)
        self._put(replace(known, sample=sample))
        if sample.models and (last is None or sample.models != last.models):
            self._lists(sample.address, sample.models)

    def weighted(self, weights: Mapping[str, int]) -> None:
        """The controller's weights. None at all means that nobody decided yet: the known ones stay."""
        if not weights:
            return
        for candidate in self._ordered:
            weight = weights.get(candidate.address)
            if weight != candidate.weight:
                self._put(replace(candidate, weight=weight))

    def registered(self, addresses: frozenset[str], now_ms: int) -> None:
        """The members that registered: a replica that is none, nor in the file, nor fresh, is gone."""
        self._told = True
        for address in sorted(addresses - self._candidates.keys()):
            self._put(_candidate(address))
        for candidate in self._ordered:
            sample = candidate.sample
            alive = sample is not None and sample.is_fresh(now_ms, self._ttl_ms)
            if not alive and candidate.address not in addresses | self._in_file:
                self._drop(candidate.address)

    def left(self, address: str) -> None:
        """Its agent watches it no more: what was sampled is void; one that is not in the file is gone."""
        known = self._candidates.get(address)
        if known is not None and address in self._in_file:
            self._put(replace(known, sample=None))
        elif known is not None:
            self._drop(address)

    def resolved(self, address: str, found: Sequence[str]) -> None:
        """A host name has these `ip:port`s, at least one. The one in use stays for as long as it is among them."""
        known = self._candidates.get(address)
        if known is not None and known.destination not in found:
            self._put(replace(known, destination=found[0]))

    def _having(self, adapter: str | None) -> tuple[Candidate, ...]:
        listing = self._listing.get(adapter or "", ())
        return tuple(candidate for candidate in self._ordered if candidate.address in listing)

    def _lists(self, address: str, names: Iterable[str]) -> None:
        """A replica lists these names and no others. One that says nothing keeps what it said last."""
        for listing in self._listing.values():
            listing.discard(address)
        for name in names:
            self._listing.setdefault(name, set()).add(address)
        self._listing = {name: listing for name, listing in self._listing.items() if listing}

    def _put(self, candidate: Candidate) -> None:
        self._candidates[candidate.address] = candidate
        self._ordered = tuple(self._candidates.values())

    def _drop(self, address: str) -> None:
        del self._candidates[address]
        self._lists(address, ())
        self._ledger.forget(address)
        self._ordered = tuple(self._candidates.values())


class FleetView:
    """Every cluster of the file. What arrives for a cluster that is not in it is ignored."""

    def __init__(self, topology: Topology, sample_ttl_ms: int) -> None:
        self._clusters = {c.name: ClusterView(c, sample_ttl_ms) for c in topology.clusters}
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
            name: [c.sample for c in view.candidates if c.sample is not None] for name, view in self._clusters.items()
        }

    def cluster_listing(self, model: str) -> str | None:
        """The first cluster, in file order, of which a replica lists `model`; None when none does."""
        return next((name for name, view in self._clusters.items() if model in view.listed), None)

    def sampled(self, samples: Iterable[EndpointSample], now_ms: int) -> None:
        """Samples arrived."""
        for sample in samples:
            if sample.cluster in self._clusters:
                self._clusters[sample.cluster].sampled(sample, now_ms)

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
        known = (c.address for view in self._clusters.values() for c in view.candidates)
        return {address for address in known if destination_of(address) is None}

    def resolved(self, address: str, found: Sequence[str]) -> None:
        """A host name has these `ip:port`s, at least one."""
        for view in self._clusters.values():
            view.resolved(address, found)


def _candidate(address: str) -> Candidate:
    return Candidate(address, destination=destination_of(address))

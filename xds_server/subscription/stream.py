"""One stream of either protocol, without I/O: requests in, the next response out, in an order that breaks nothing.

It holds what one client subscribed to, was sent and said about that. It never blocks and never queues: the next
response is the difference between the newest snapshot and what this client was sent, found when it can be written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.domain.errors import ProtocolViolation
from xds_server.groups import Node, node_of
from xds_server.snapshot import Resource, Snapshot, version_of
from xds_server.subscription.delta import DeltaSubscription
from xds_server.subscription.protocols import SOTW, Protocol
from xds_server.subscription.verdicts import Due, Happening, Observer, Response, Subscription
from xds_server.type_urls import CLUSTER, ENDPOINT, LISTENER, PUSH_ORDER, ROUTE, SHORT_NAMES

ROUTES_PATIENCE_MS: Final = 2_000
"""How long a client that brings clusters from an earlier stream may take to ask for its routes."""
CLUSTERS_PATIENCE_MS: Final = 20_000
"""How long a client that asked for endpoints alone may take to ask for clusters; Envoy warms at most 15 s."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How one client stands, by short type name: versions accepted and refused, words of refusal, ages in ms.

    `last_error` is one of `errors`, the first in push order; `oldest_unacked_ms` is the greatest of `unacked_ms`;
    `refusing` are the types whose last verdict was a refusal.
    """

    node: str
    acked: Mapping[str, str]
    nacked: Mapping[str, str]
    last_error: str | None
    oldest_unacked_ms: int | None
    protocol: str = "sotw"
    group: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    unacked_ms: Mapping[str, int] = field(default_factory=dict)
    refusing: tuple[str, ...] = ()


def ignore(_happening: Happening, _type_url: str, _detail: str) -> None:
    """An observer that looks away."""


class Stream:
    """The state of one stream, aggregated or of one type (`only`). Not thread-safe.

    `stream_id` must never have been used before: nonces begin with it.
    """

    def __init__(
        self, stream_id: str, protocol: Protocol = SOTW, *, only: str | None = None, observe: Observer = ignore
    ) -> None:
        self.stream_id, self.protocol = stream_id, protocol
        self.node: Node | None = None
        self.brings_state = False
        """Whether this client said that it holds resources of an earlier stream."""
        self._only, self._observe = only, observe
        self._subscriptions: dict[str, Subscription] = {}
        self._routable: set[str] = set()
        self._built_anew: set[str] = set()
        self._awaited: dict[str, int] = {}
        self._responses = 0

    @property
    def wake_at_ms(self) -> int | None:
        """When to ask for the next response even if nothing happens, or None."""
        return min(self._awaited.values(), default=None)

    def receive(self, request: Any, now_ms: int) -> None:
        """Digest a request of this protocol.

        Raises ProtocolViolation when an aggregated stream's names no type, or a typed stream's another one.
        """
        type_url = request.type_url or self._only
        if not type_url:
            raise ProtocolViolation("an ADS request carries no type_url")
        if self._only not in {None, type_url}:
            raise ProtocolViolation(f"{type_url} was asked for on a stream of {self._only}")
        if self.node is None:
            self.node = node_of(request.node)
        if type_url not in SHORT_NAMES:
            return
        first = type_url not in self._subscriptions
        held: Any = getattr(request, "version_info", None) or getattr(request, "initial_resource_versions", None)
        self.brings_state = self.brings_state or (first and bool(held))
        subscription = self._subscriptions.setdefault(type_url, self.protocol.subscription(type_url))
        subscription.take(request, self._observe)
        subscription.caught_up = None
        if first:
            self._heard_first(subscription, now_ms)

    def next_response(self, snapshot: Snapshot, now_ms: int) -> Response | None:
        """The next response that brings this client to `snapshot`, as far as order allows; it counts as sent.

        None when all that is due waits for the client, or until `wake_at_ms` where that is set.
        """
        self._awaited = {t: at_ms for t, at_ms in self._awaited.items() if now_ms < at_ms}
        for type_url in PUSH_ORDER:
            subscription = self._subscriptions.get(type_url)
            version = snapshot.version(type_url)
            if subscription is None or subscription.caught_up == version or self._held(type_url):
                continue
            keep = self._kept(snapshot) if type_url == CLUSTER else ()
            due = subscription.due(snapshot.resources(type_url), keep)
            if due is not None:
                return self._push(subscription, due, snapshot, keep, now_ms)
            if not keep:
                subscription.caught_up = version
                self._note_restored(subscription, version)
        return None

    def status(self, now_ms: int) -> StreamStatus:
        """How this client stands at `now_ms`."""
        by_name = {SHORT_NAMES[t]: self._subscriptions[t] for t in PUSH_ORDER if t in self._subscriptions}
        ages = {name: s.oldest_unacked_ms(now_ms) for name, s in by_name.items()}
        unacked = {name: age for name, age in ages.items() if age is not None}
        errors = {name: s.last_error for name, s in by_name.items() if s.last_error}
        return StreamStatus(
            node=self.node.id if self.node else "",
            acked={name: s.acked for name, s in by_name.items() if s.acked},
            nacked={name: s.nacked for name, s in by_name.items() if s.nacked},
            last_error=next(iter(errors.values()), None),
            oldest_unacked_ms=max(unacked.values(), default=None),
            protocol=self.protocol.name,
            errors=errors,
            unacked_ms=unacked,
            refusing=tuple(name for name, s in by_name.items() if s.refusing),
        )

    def _heard_first(self, subscription: Subscription, now_ms: int) -> None:
        """What a client brings from an earlier stream, and what it may still be waiting for."""
        type_url = subscription.type_url
        self._awaited.pop(type_url, None)
        if self._only is not None:
            return
        # Envoy asks for endpoints and not for clusters when clusters were warming as its last stream broke off.
        midway = type_url == ENDPOINT and CLUSTER not in self._subscriptions
        if midway:
            self._awaited[CLUSTER] = now_ms + CLUSTERS_PATIENCE_MS
        if isinstance(subscription, DeltaSubscription):
            self._heard_first_delta(subscription, midway, now_ms)

    def _heard_first_delta(self, subscription: DeltaSubscription, midway: bool, now_ms: int) -> None:
        if subscription.type_url == CLUSTER and subscription.restored:
            self._routable |= subscription.held()
            if ROUTE not in self._subscriptions:
                self._awaited[ROUTE] = now_ms + ROUTES_PATIENCE_MS
        elif subscription.type_url == ENDPOINT:
            if midway:
                subscription.forget_restored()
            for name in self._built_anew:
                subscription.resend(name)
            self._built_anew.clear()

    def _note_restored(self, subscription: Subscription, version: str) -> None:
        """A client that came back and was sent nothing holds what is served."""
        restored = isinstance(subscription, DeltaSubscription) and subscription.restored
        if restored and subscription.acked is None and not subscription.pending:
            subscription.acked = version

    def _held(self, type_url: str) -> bool:
        """Listeners and routes wait while clusters warm: Envoy accepts a route to an unknown one, then fails."""
        if type_url not in {LISTENER, ROUTE}:
            return False
        clusters = self._subscriptions.get(CLUSTER)
        return CLUSTER in self._awaited if clusters is None else bool(clusters.pending)

    def _kept(self, snapshot: Snapshot) -> Collection[str]:
        """Clusters that are not to be removed yet, since routes of this client may name them.

        Others are not kept: a cluster that no longer has endpoints to give would never warm.
        """
        return () if self._routes_are_current(snapshot) else self._routable - snapshot.resources(CLUSTER).keys()

    def _routes_are_current(self, snapshot: Snapshot) -> bool:
        """Whether the client accepted the snapshot's routes, so that no route names a cluster that is gone."""
        routes = self._subscriptions.get(ROUTE)
        if routes is None:
            return ROUTE not in self._awaited
        wanted = routes.wanted(snapshot.resources(ROUTE))
        return all(routes.accepted.get(name) == r.version for name, r in wanted.items())

    def _push(
        self, subscription: Subscription, due: Due, snapshot: Snapshot, keep: Collection[str], now_ms: int
    ) -> Response:
        if subscription.type_url == CLUSTER:
            self._resend_assignments_of(due.resources, subscription)
            gone = due.removed if self.protocol is not SOTW else self._routable - {r.name for r in due.resources}
            self._routable.difference_update(gone)
        elif subscription.type_url == ROUTE and (clusters := self._subscriptions.get(CLUSTER)):
            self._routable |= clusters.held()
        version = self._version(subscription, due, snapshot, keep)
        self._responses += 1
        self._observe("push", subscription.type_url, version)
        return subscription.push(due, version, f"{self.stream_id}.{self._responses}", now_ms)

    def _version(self, subscription: Subscription, due: Due, snapshot: Snapshot, keep: Collection[str]) -> str:
        """That of the snapshot, unless the client is left with something else: a first pass is not the last."""
        if self.protocol is SOTW and subscription.full_set:
            return version_of(due.resources)
        version = snapshot.version(subscription.type_url)
        return f"{version}+{len(left)}" if (left := subscription.held() & set(keep)) else version

    def _resend_assignments_of(self, due: Collection[Resource], clusters: Subscription) -> None:
        """A cluster that changed, or that went and came back, warms until it is given its endpoints again."""
        endpoints = self._subscriptions.get(ENDPOINT)
        anew = [r.name for r in due if not clusters.holds(r.name, r.version)]
        if endpoints is None:
            self._built_anew.update(anew)
        else:
            for name in anew:
                endpoints.resend(name)

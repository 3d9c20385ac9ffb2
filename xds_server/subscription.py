"""One stream's state-of-the-world protocol, without I/O: requests and snapshots in, responses out.

`SotwStream` holds what one Envoy subscribed to, what it was sent and what it said about that. It never blocks
and never queues: a snapshot replaces the one before it, and each response is the difference between what the
newest snapshot holds and what this stream was last sent. The caller writes responses in the order returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from envoy.service.discovery.v3 import discovery_pb2

from tidegate.domain.errors import ProtocolViolation
from xds_server.snapshot import Resource, Snapshot, version_of
from xds_server.type_urls import CLUSTER, ENDPOINT, FULL_SET, LISTENER, PUSH_ORDER, ROUTE, SHORT_NAMES

WILDCARD: Final = "*"
MOST_PENDING: Final = 64

Happening = Literal["push", "ack", "nack"]
Observer = Callable[[Happening, str, str], None]
"""Told what happened, the type URL, and the version (push, ack) or the client's error text (nack)."""


@dataclass(frozen=True, slots=True)
class Push:
    """A response that the client has not yet accepted or refused; `at_ms` is the caller's clock."""

    version: str
    resources: Mapping[str, Resource]
    at_ms: int


@dataclass(slots=True)
class Subscription:
    """What one stream wants of one type, was sent, and accepted. `sent` and `accepted` are by resource name."""

    type_url: str
    names: frozenset[str] = frozenset()
    wildcard: bool = False
    heard: bool = False
    named: bool = False
    answered: bool = False
    nonce: str = ""
    sent: dict[str, Resource] = field(default_factory=dict)
    accepted: dict[str, Resource] = field(default_factory=dict)
    pending: dict[str, Push] = field(default_factory=dict)
    acked: str | None = None
    nacked: str | None = None
    last_error: str | None = None

    @property
    def full_set(self) -> bool:
        """Whether a response must hold every subscribed resource."""
        return self.type_url in FULL_SET

    def take(self, request: Any, observe: Observer) -> None:
        """Digest one request: its verdict on a push, then its names, unless its nonce is stale."""
        settled = self._settle(request, observe)
        if request.response_nonce and self.nonce and request.response_nonce != self.nonce:
            return
        first, changed = not self.heard, self._subscribe(frozenset(request.resource_names))
        if not (first or settled or changed or request.HasField("error_detail")):
            # The same request once more. Envoy repeats it when it has built a cluster anew, and waits.
            self.forget_sent()

    def _settle(self, request: Any, observe: Observer) -> bool:
        push = self.pending.get(request.response_nonce)
        if push is None:
            return False
        self._drop_pending_until(request.response_nonce)
        if request.HasField("error_detail"):
            self.nacked, self.last_error = push.version, request.error_detail.message
            observe("nack", self.type_url, request.error_detail.message)
        else:
            self.acked = push.version
            self._accept(push)
            observe("ack", self.type_url, push.version)
        return True

    def _accept(self, push: Push) -> None:
        if self.full_set:
            self.accepted = dict(push.resources)
        else:
            self.accepted.update(push.resources)

    def _drop_pending_until(self, nonce: str) -> None:
        """A verdict on a response covers those before it: a client answers in order."""
        for older in list(self.pending):
            del self.pending[older]
            if older == nonce:
                return

    def _subscribe(self, names: frozenset[str]) -> bool:
        """Take the names over; True when the subscription changed.

        No names from the start is the legacy wildcard of CDS and LDS. No names after names is none.
        """
        self.named = self.named or bool(names)
        wildcard = WILDCARD in names or (self.full_set and not self.named)
        explicit = names - {WILDCARD}
        changed = (explicit, wildcard) != (self.names, self.wildcard)
        if explicit - self.names or (wildcard and not self.wildcard):
            self.answered = False
        self.names, self.wildcard, self.heard = explicit, wildcard, True
        if not wildcard:
            self._forget_unsubscribed()
        return changed

    def _forget_unsubscribed(self) -> None:
        self.sent = {name: r for name, r in self.sent.items() if name in self.names}
        self.accepted = {name: r for name, r in self.accepted.items() if name in self.names}

    def forget_sent(self) -> None:
        """Have everything that is subscribed sent once more."""
        self.answered = False
        if not self.full_set:
            self.sent.clear()

    def wanted(self, resources: Mapping[str, Resource]) -> dict[str, Resource]:
        """What is both subscribed and there. A subscribed name that is missing waits until it appears."""
        if self.wildcard:
            return dict(resources)
        return {name: resources[name] for name in sorted(self.names) if name in resources}

    def due(self, wanted: Mapping[str, Resource]) -> Mapping[str, Resource] | None:
        """What the next response holds, or None when the client has it all."""
        if self.full_set:
            subscribed = self.wildcard or bool(self.names)
            return wanted if subscribed and not (self.answered and wanted == self.sent) else None
        changed = {name: r for name, r in wanted.items() if self.sent.get(name) != r}
        return changed or None

    def push(self, nonce: str, version: str, resources: Mapping[str, Resource], now_ms: int) -> Any:
        """Note a response as sent, and build it."""
        self.nonce, self.answered = nonce, True
        self.sent = dict(resources) if self.full_set else {**self.sent, **resources}
        self.pending[nonce] = Push(version, dict(resources), now_ms)
        if len(self.pending) > MOST_PENDING:  # the oldest tells the age, the newest are the ones answered
            del self.pending[list(self.pending)[1]]
        return discovery_pb2.DiscoveryResponse(
            version_info=version,
            resources=[r.body for r in resources.values()],
            type_url=self.type_url,
            nonce=nonce,
        )


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How one Envoy stands: versions accepted and refused by short type name, and its last words of refusal."""

    node: str
    acked: Mapping[str, str]
    nacked: Mapping[str, str]
    last_error: str | None
    oldest_unacked_ms: int | None


def ignore(_happening: Happening, _type_url: str, _detail: str) -> None:
    """An observer that looks away."""


class SotwStream:
    """The state of one ADS stream. Not thread-safe; `stream_id` must never have been used before."""

    def __init__(self, stream_id: str, observe: Observer = ignore) -> None:
        self.stream_id = stream_id
        self.node = ""
        self._observe = observe
        self._snapshot: Snapshot | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._routable: set[str] = set()
        self._responses = 0

    def receive(self, request: Any, now_ms: int) -> list[Any]:
        """Digest a DiscoveryRequest; the DiscoveryResponses it calls for, in order.

        Raises ProtocolViolation when it names no type.
        """
        if not request.type_url:
            raise ProtocolViolation("an ADS request carries no type_url")
        self.node = self.node or request.node.id
        if request.type_url not in SHORT_NAMES:
            return []
        self._subscription(request.type_url).take(request, self._observe)
        return self._due(now_ms)

    def publish(self, snapshot: Snapshot, now_ms: int) -> list[Any]:
        """Serve `snapshot` from here on; the responses that bring this client there, as far as order allows."""
        self._snapshot = snapshot
        return self._due(now_ms)

    def status(self, now_ms: int) -> StreamStatus:
        """How this client stands at `now_ms`."""
        subscriptions = [self._subscriptions[t] for t in PUSH_ORDER if t in self._subscriptions]
        oldest = [next(iter(s.pending.values())).at_ms for s in subscriptions if s.pending]
        return StreamStatus(
            node=self.node,
            acked={SHORT_NAMES[s.type_url]: s.acked for s in subscriptions if s.acked},
            nacked={SHORT_NAMES[s.type_url]: s.nacked for s in subscriptions if s.nacked},
            last_error=next((s.last_error for s in subscriptions if s.last_error), None),
            oldest_unacked_ms=now_ms - min(oldest) if oldest else None,
        )

    def _subscription(self, type_url: str) -> Subscription:
        return self._subscriptions.setdefault(type_url, Subscription(type_url))

    def _due(self, now_ms: int) -> list[Any]:
        """Every response that is due, make before break: what is not yet allowed waits for a later call."""
        if self._snapshot is None:
            return []
        responses = []
        for type_url in PUSH_ORDER:
            subscription = self._subscriptions.get(type_url)
            if subscription is None or self._held(type_url):
                continue
            due = subscription.due(self._wanted(subscription, self._snapshot))
            if due is not None:
                responses.append(self._push(subscription, due, now_ms))
        return responses

    def _held(self, type_url: str) -> bool:
        """Listeners and routes wait while clusters warm: Envoy accepts a route to an unknown one, then fails."""
        clusters = self._subscriptions.get(CLUSTER)
        return type_url in {LISTENER, ROUTE} and clusters is not None and bool(clusters.pending)

    def _wanted(self, subscription: Subscription, snapshot: Snapshot) -> dict[str, Resource]:
        """What is subscribed and there, and of clusters also those that routes of this client may still name.

        Others are not kept: a cluster that no longer has endpoints to give would never warm.
        """
        wanted = subscription.wanted(snapshot.resources(subscription.type_url))
        if subscription.type_url == CLUSTER and not self._routes_are_current(snapshot):
            for name in sorted(self._routable & subscription.sent.keys()):
                wanted.setdefault(name, subscription.sent[name])
        return wanted

    def _routes_are_current(self, snapshot: Snapshot) -> bool:
        """Whether the client accepted the snapshot's routes, so that no route names a cluster that is gone."""
        routes = self._subscriptions.get(ROUTE)
        if routes is None:
            return True
        wanted = routes.wanted(snapshot.resources(ROUTE))
        return all(routes.accepted.get(name) == r for name, r in wanted.items())

    def _push(self, subscription: Subscription, due: Mapping[str, Resource], now_ms: int) -> Any:
        assert self._snapshot is not None
        if subscription.type_url == CLUSTER:
            self._resend_assignments_of(due, subscription.sent)
            self._routable &= due.keys()
        elif subscription.type_url == ROUTE and (clusters := self._subscriptions.get(CLUSTER)):
            self._routable |= clusters.sent.keys()
        version = version_of(due.values()) if subscription.full_set else self._snapshot.version(subscription.type_url)
        self._responses += 1
        nonce = f"{self.stream_id}.{self._responses}"
        self._observe("push", subscription.type_url, version)
        return subscription.push(nonce, version, due, now_ms)

    def _resend_assignments_of(self, due: Mapping[str, Resource], sent: Mapping[str, Resource]) -> None:
        """A cluster that changed, or that went and came back, warms until it is given its endpoints again."""
        endpoints = self._subscriptions.get(ENDPOINT)
        for name, cluster in due.items():
            if endpoints is not None and sent.get(name) != cluster:
                endpoints.sent.pop(name, None)

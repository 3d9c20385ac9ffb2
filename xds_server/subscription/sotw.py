"""State of the world: a request lists every name it wants; a response of CDS or LDS holds every resource.

EDS and RDS responses hold only what changed, which that protocol allows. A request with a stale nonce is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from xds_server.snapshot import Resource
from xds_server.subscription.verdicts import WILDCARD, Due, Observer, Push, Subscription


@dataclass(slots=True)
class SotwSubscription(Subscription):
    """One type of a state-of-the-world stream. `sent` is by resource name."""

    heard: bool = False
    named: bool = False
    answered: bool = False
    sent: dict[str, Resource] = field(default_factory=dict)

    def take(self, request: Any, observe: Observer) -> None:
        """Digest one request: its verdict on a push, then its names, unless its nonce is stale."""
        settled = self.settle(request, observe)
        if request.response_nonce and self.nonce and request.response_nonce != self.nonce:
            return
        first, changed = not self.heard, self._subscribe(set(request.resource_names))
        if not (first or settled or changed or request.HasField("error_detail")):
            # The same request once more. Envoy repeats it when it has built a cluster anew, and waits.
            self._forget_sent()

    def _subscribe(self, names: set[str]) -> bool:
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
        self.accepted = {name: v for name, v in self.accepted.items() if name in self.names}

    def _forget_sent(self) -> None:
        self.answered = False
        if not self.full_set:
            self.sent.clear()

    def due(self, resources: Mapping[str, Resource], keep: Collection[str]) -> Due | None:
        """What the next response holds, or None when the client has it all."""
        wanted = self.wanted(resources)
        if not self.full_set:
            changed = tuple(r for name, r in wanted.items() if self.sent.get(name) != r)
            return Due(changed) if changed else None
        if kept := {name: self.sent[name] for name in sorted(keep) if name in self.sent and name not in wanted}:
            wanted = {**wanted, **kept}
        subscribed = self.wildcard or bool(self.names)
        if not subscribed or (self.answered and wanted == self.sent):
            return None
        return Due(tuple(wanted.values()))

    def mark(self, due: Due) -> None:
        """Note that the client was sent this."""
        self.answered = True
        sent = {r.name: r for r in due.resources}
        self.sent = sent if self.full_set else {**self.sent, **sent}

    def holds(self, name: str, version: str | None = None) -> bool:
        """Whether the client was sent a resource of that name, and of that version where one is given."""
        resource = self.sent.get(name)
        return resource is not None and version in {None, resource.version}

    def held(self) -> set[str]:
        """The names of what the client was sent."""
        return set(self.sent)

    def resend(self, name: str) -> None:
        """Have a resource sent once more if it is subscribed."""
        self.sent.pop(name, None)
        self.caught_up = None

    def _accept(self, push: Push) -> None:
        if self.full_set:
            self.accepted = dict(push.resources)
        else:
            self.accepted.update(push.resources)

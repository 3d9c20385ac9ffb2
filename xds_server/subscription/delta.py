"""Delta: a request says which names it adds and drops; a response holds what changed and what went.

A subscribed name that is not there is listed as removed, and the subscription lives on. Adding and dropping names
counts whatever the nonce; only the verdict of a request needs one that is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from xds_server.snapshot import Resource
from xds_server.subscription.verdicts import WILDCARD, Due, Observer, Subscription

ABSENT: Final = ""
"""In place of a version: the client was told that there is no such resource."""
UNSURE: Final = "?"
"""In place of a version: the client may or may not hold one, and is to be told."""


@dataclass(slots=True)
class DeltaSubscription(Subscription):
    """One type of a delta stream. `sent` holds what the client was last told of a name: a version, or ABSENT.

    What a client refused stays marked as sent: the same content would be refused again.
    """

    heard: bool = False
    answered: bool = True
    restored: bool = False
    sent: dict[str, str] = field(default_factory=dict)

    def take(self, request: Any, observe: Observer) -> None:
        """Digest one request: its verdict on a push, then what it drops and adds."""
        self.settle(request, observe)
        first, self.heard = not self.heard, True
        added = set(request.resource_names_subscribe)
        if WILDCARD in added or (first and self.full_set and not added):
            self._enter_wildcard()
        for name in added - {WILDCARD}:
            self.names.add(name)
            self.sent.pop(name, None)
        for name in request.resource_names_unsubscribe:
            self._drop(name)
        if first:
            self._restore(request.initial_resource_versions)

    def _enter_wildcard(self) -> None:
        self.answered = self.answered and self.wildcard
        self.wildcard = True

    def _drop(self, name: str) -> None:
        if name == WILDCARD:
            self.wildcard = False
            self._forget_unsubscribed()
        elif name in self.names:
            self.names.discard(name)
            self._forget(name)
        elif self.wildcard and name in self.sent:
            self.sent[name] = UNSURE

    def _forget(self, name: str) -> None:
        """A name that the wildcard still covers is answered: sent again, or listed as removed."""
        if self.wildcard:
            self.sent[name] = UNSURE
        else:
            self.sent.pop(name, None)
            self.accepted.pop(name, None)

    def _forget_unsubscribed(self) -> None:
        self.sent = {name: version for name, version in self.sent.items() if name in self.names}
        self.accepted = {name: version for name, version in self.accepted.items() if name in self.names}

    def _restore(self, versions: Mapping[str, str]) -> None:
        """Take over what the client holds from an earlier stream, on whatever server."""
        held = {name: version for name, version in versions.items() if self.wildcard or name in self.names}
        self.sent.update({name: version or UNSURE for name, version in held.items()})
        self.accepted.update(held)
        if held:
            self.restored = self.answered = True

    def forget_restored(self) -> None:
        """Distrust what the client said that it holds: everything subscribed is sent."""
        for name in self.sent:
            self.sent[name] = UNSURE

    def due(self, resources: Mapping[str, Resource], keep: Collection[str]) -> Due | None:
        """What the next response holds, or None when the client has it all."""
        wanted, sent = self.wanted(resources), self.sent
        changed = tuple(r for name, r in wanted.items() if sent.get(name) != r.version)
        missing = (self.names | sent.keys()) - wanted.keys()
        gone = tuple(sorted(name for name in missing if sent.get(name) != ABSENT and name not in keep))
        return Due(changed, gone) if changed or gone or not self.answered else None

    def mark(self, due: Due) -> None:
        """Note that the client was sent this."""
        self.answered = True
        self.sent.update({r.name: r.version for r in due.resources})
        for name in due.removed:
            if name in self.names:
                self.sent[name] = ABSENT
            else:
                self.sent.pop(name, None)

    def holds(self, name: str, version: str | None = None) -> bool:
        """Whether the client was sent a resource of that name, and of that version where one is given."""
        return self.sent.get(name, ABSENT) != ABSENT and version in {None, self.sent[name]}

    def held(self) -> set[str]:
        """The names of what the client was sent."""
        return {name for name, version in self.sent.items() if version != ABSENT}

    def resend(self, name: str) -> None:
        """Have a resource sent once more if it is subscribed."""
        if name in self.sent:
            self.sent[name] = UNSURE
        self.caught_up = None

"""What one stream was sent of one type, and what its client said about that: the part that both protocols share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from xds_server.snapshot import Resource
from xds_server.type_urls import FULL_SET

WILDCARD: Final = "*"
MOST_PENDING: Final = 64
MOST_ERROR_CHARACTERS: Final = 1_000
"""What is kept, logged and shown of a client's error text."""

Happening = Literal["push", "ack", "nack"]
Observer = Callable[[Happening, str, str], None]
"""Told what happened, the type URL, and the version (push, ack) or the client's error text (nack)."""


@dataclass(frozen=True, slots=True)
class Response:
    """One response of either protocol; only delta names what was removed."""

    type_url: str
    version_info: str
    nonce: str
    resources: tuple[Resource, ...]
    removed_resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """What the next response of a type holds."""

    resources: tuple[Resource, ...]
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Push:
    """A response that the client has not yet accepted or refused; `at_ms` is the caller's clock."""

    version: str
    resources: Mapping[str, str]
    removed: tuple[str, ...]
    at_ms: int


@dataclass(slots=True)
class Subscription:
    """What one stream wants of one type, and how it stands. `accepted` holds versions by resource name.

    `refusing` says that the last verdict was a refusal. `caught_up` is the version of the type at which nothing was
    due, so that a look at the same version is short.
    """

    type_url: str
    names: set[str] = field(default_factory=set)
    wildcard: bool = False
    nonce: str = ""
    caught_up: str | None = None
    accepted: dict[str, str] = field(default_factory=dict)
    pending: dict[str, Push] = field(default_factory=dict)
    acked: str | None = None
    nacked: str | None = None
    last_error: str | None = None
    refusing: bool = False

    @property
    def full_set(self) -> bool:
        """Whether a state-of-the-world response must hold every subscribed resource."""
        return self.type_url in FULL_SET

    def take(self, request: Any, observe: Observer) -> None:
        """Digest one request."""
        raise NotImplementedError

    def due(self, resources: Mapping[str, Resource], keep: Collection[str]) -> Due | None:
        """What the next response holds, or None when the client has it all.

        Of what is not among `resources`, names in `keep` are not to be removed yet.
        """
        raise NotImplementedError

    def mark(self, due: Due) -> None:
        """Note that the client was sent this."""
        raise NotImplementedError

    def holds(self, name: str, version: str | None = None) -> bool:
        """Whether the client was sent a resource of that name, and of that version where one is given."""
        raise NotImplementedError

    def held(self) -> set[str]:
        """The names of what the client was sent."""
        raise NotImplementedError

    def resend(self, name: str) -> None:
        """Have a resource sent once more if it is subscribed."""
        raise NotImplementedError

    def wanted(self, resources: Mapping[str, Resource]) -> Mapping[str, Resource]:
        """What is both subscribed and there. A subscribed name that is missing waits until it appears."""
        if self.wildcard:
            return resources
        return {name: resources[name] for name in sorted(self.names) if name in resources}

    def push(self, due: Due, version: str, nonce: str, now_ms: int) -> Response:
        """Note a response as sent, and give it."""
        self.nonce = nonce
        self.mark(due)
        self.pending[nonce] = Push(version, {r.name: r.version for r in due.resources}, due.removed, now_ms)
        if len(self.pending) > MOST_PENDING:  # the oldest tells the age, the newest are the ones answered
            del self.pending[list(self.pending)[1]]
        return Response(self.type_url, version, nonce, due.resources, due.removed)

    def settle(self, request: Any, observe: Observer) -> bool:
        """Take a request's verdict on the push that it names; False when it names none that is open.

        `error_detail` alone makes it a refusal, whatever versions say: Envoy may echo the one that it refuses.
        """
        push = self.pending.get(request.response_nonce)
        if push is None:
            return False
        self._drop_pending_until(request.response_nonce)
        self.refusing = request.HasField("error_detail")
        if self.refusing:
            self.nacked, self.last_error = push.version, request.error_detail.message[:MOST_ERROR_CHARACTERS]
            observe("nack", self.type_url, self.last_error)
        else:
            self.acked = push.version
            self._accept(push)
            observe("ack", self.type_url, push.version)
        return True

    def oldest_unacked_ms(self, now_ms: int) -> int | None:
        """The age of the oldest response without a verdict, or None when there is none."""
        return now_ms - next(iter(self.pending.values())).at_ms if self.pending else None

    def _accept(self, push: Push) -> None:
        self.accepted.update(push.resources)
        for name in push.removed:
            self.accepted.pop(name, None)

    def _drop_pending_until(self, nonce: str) -> None:
        """A verdict on a response covers those before it: a client answers in order."""
        for older in list(self.pending):
            del self.pending[older]
            if older == nonce:
                return

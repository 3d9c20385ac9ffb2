"""What operators typed into `weight:` and `drain:`: valid orders, and a sentence for each value refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidegate.domain.lifetime import Timed, read_timed, timed_text

LARGEST_PIN: Final = 1000
_DIGITS: Final = re.compile(r"[0-9]{1,4}")
_SHOWN_CHARACTERS: Final = 40
MOST_ABSENT: Final = 100
"""Fields of one key for endpoints that are not there: a script that went wrong does not hold up orders of others."""

ByEndpoint = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field of an operator key that becomes `value`, or goes where that is None.

    With `only_if`, nothing happens unless the field holds that text.
    """

    key: str
    field: str
    value: str | None
    only_if: str | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """Orders in force: pins (0…1000) and drains (reason) by cluster and address; `rejected` by operator key.

    A key of `rejected`, `until_ms` and `typed` reads `weight:{cluster} {host:port}`. `until_ms` are the ends of orders
    that have one; `typed` the texts whose end counts from when they were first seen. `settled` is what to write back:
    ends as times, and the deletion of orders whose time is over, which are not in force.
    """

    pins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    drains: ByEndpoint = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)
    until_ms: Mapping[str, int] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    settled: tuple[FieldChange, ...] = ()

    def texts(self) -> dict[str, str]:
        """Each order in force as it may be typed: `weight:phi-3 10.0.0.5:8000` → `300 until …`."""
        pins = _flat("weight", {c: {a: str(pin) for a, pin in fields.items()} for c, fields in self.pins.items()})
        orders = dict([*pins, *_flat("drain", self.drains)])
        return {name: timed_text(rest, self.until_ms.get(name)) for name, rest in orders.items()}


def parse_pin(text: str) -> int:
    """A whole number from 0 to 1000 in ASCII digits. Raises ValueError with half a sentence."""
    if _DIGITS.fullmatch(text) and int(text) <= LARGEST_PIN:
        return int(text)
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    hint = ", with an end such as `for 10m`" if re.search(r"\b(for|until)\b", shown) else ""
    raise ValueError(f"{shown!r} is not a whole number from 0 to {LARGEST_PIN}{hint}")


def read_orders(
    weights: ByEndpoint,
    drains: ByEndpoint,
    members: Mapping[str, Collection[str]],
    before: Intent,
    broken: Mapping[str, str] | None = None,
    *,
    now_ms: int = 0,
) -> Intent:
    """Validate the fields of `weight:` and `drain:`, by cluster and address, as typed, at `now_ms` (Unix).

    `members` are the addresses that each cluster has. A bad weight leaves that field's last good value of
    `before` in force, else the automatic weight. A field for an endpoint that the cluster lacks is kept and
    explained: the engine may register later (of such fields, a key's first 100 by name). Absent fields are no
    orders. `broken` names keys that cannot be read (of another type) and why: their last good orders stay in force.
    An order may end in a lifetime (tidegate.domain.lifetime).
    """
    weights, many_weights = _without_most_absent("weight", weights, members)
    drains, many_drains = _without_most_absent("drain", drains, members)
    reading = _Reading(before, now_ms)
    reading.rejected.update(broken or {})
    for key, cluster in _pairs(members, "weight", "drain"):
        if key in reading.rejected:
            reading.keep(key, cluster)
    for cluster, fields in weights.items():
        for address, text in fields.items():
            reading.weight(cluster, address, text)
    for cluster, fields in drains.items():
        for address, text in fields.items():
            reading.drain(cluster, address, text)
    for name, place in reading.places.items():
        if place[1] not in members.get(place[0], ()):
            reading.rejected.setdefault(name, _absent(*place))
    reading.rejected.update({**many_weights, **many_drains})
    return reading.intent()


class _Reading:
    """Orders as they are read, one field at a time."""

    def __init__(self, before: Intent, now_ms: int) -> None:
        self._before, self._now_ms = before, now_ms
        self._pins: dict[str, dict[str, int]] = {}
        self._drains: dict[str, dict[str, str]] = {}
        self.rejected: dict[str, str] = {}
        self.places: dict[str, tuple[str, str]] = {}
        self._until_ms: dict[str, int] = {}
        self._typed: dict[str, str] = {}
        self._settled: list[FieldChange] = []

    def intent(self) -> Intent:
        return Intent(
            self._pins, self._drains, self.rejected, self._until_ms, self._typed, settled=tuple(self._settled)
        )

    def keep(self, key: str, cluster: str) -> None:
        """The orders of a key that cannot be read stay until their time is over."""
        pins, drains = self._before.pins.get(cluster, {}), self._before.drains.get(cluster, {})
        for address in pins if key.startswith("weight:") else drains:
            until_ms = self._before.until_ms.get(f"{key} {address}")
            if until_ms is not None and self._now_ms >= until_ms:
                continue
            if until_ms is not None:
                self._until_ms[f"{key} {address}"] = until_ms
            if key.startswith("weight:"):
                self._pins.setdefault(cluster, {})[address] = pins[address]
            else:
                self._drains.setdefault(cluster, {})[address] = drains[address]

    def weight(self, cluster: str, address: str, text: str) -> None:
        key, name = f"weight:{cluster}", f"weight:{cluster} {address}"
        timed = self._timed(key, address, text)
        if timed is None:
            return
        try:
            self._pins.setdefault(cluster, {})[address] = parse_pin(timed.rest)
            self._holds(name, (cluster, address), timed, text)
        except ValueError as exc:
            self._last_good(cluster, address, str(exc))

    def drain(self, cluster: str, address: str, text: str) -> None:
        timed = self._timed(f"drain:{cluster}", address, text)
        if timed is not None:
            self._drains.setdefault(cluster, {})[address] = timed.rest
            self._holds(f"drain:{cluster} {address}", (cluster, address), timed, text)

    def _timed(self, key: str, address: str, text: str) -> Timed | None:
        """The order, or None when its time is over and the field is to go."""
        timed, name = read_timed(text, self._now_ms), f"{key} {address}"
        began = self._before.until_ms.get(name) if self._before.typed.get(name) == text else None
        if timed.spoken and began is not None:
            timed = Timed(timed.rest, began, spoken=True)
        if timed.is_over(self._now_ms):
            self._settled.append(FieldChange(key=key, field=address, value=None, only_if=text))
            return None
        return timed

    def _holds(self, name: str, place: tuple[str, str], timed: Timed, text: str) -> None:
        self.places[name] = place
        if timed.until_ms is not None:
            self._until_ms[name] = timed.until_ms
        if timed.spoken:
            key, _, address = name.partition(" ")
            self._typed[name] = text
            self._settled.append(FieldChange(key=key, field=address, value=timed.text, only_if=text))

    def _last_good(self, cluster: str, address: str, fault: str) -> None:
        name, pins = f"weight:{cluster} {address}", self._pins.setdefault(cluster, {})
        last, until_ms = self._before.pins.get(cluster, {}).get(address), self._before.until_ms.get(name)
        if until_ms is not None and self._now_ms >= until_ms:
            last = None
        if last is not None:
            pins[address] = last
        if last is not None and until_ms is not None:
            self._until_ms[name] = until_ms
        if not pins:
            del self._pins[cluster]
        stays = "automatic weight" if last is None else f"the last good value {last}"
        self.rejected[name] = f"{fault}; {stays} stays in force"


def _without_most_absent(
    kind: str, orders: ByEndpoint, members: Mapping[str, Collection[str]]
) -> tuple[ByEndpoint, dict[str, str]]:
    """The orders, of those for endpoints that are not there the first by name; and what is said of the others."""
    kept, said = {}, {}
    for cluster, fields in orders.items():
        unread = sorted(fields.keys() - set(members.get(cluster, ())))[MOST_ABSENT:]
        kept[cluster] = {a: fields[a] for a in fields.keys() - set(unread)} if unread else fields
        if unread:
            said[f"{kind}:{cluster}"] = (
                f"holds {MOST_ABSENT + len(unread)} fields for endpoints that cluster {cluster} has not;"
                f" {len(unread)} are left unread; remove them with HDEL"
            )
    return kept, said


def _pairs(members: Mapping[str, Collection[str]], *kinds: str) -> Iterator[tuple[str, str]]:
    return ((f"{kind}:{cluster}", cluster) for cluster in members for kind in kinds)


def _flat(kind: str, orders: ByEndpoint) -> Iterator[tuple[str, str]]:
    return (
        (f"{kind}:{cluster} {address}", text) for cluster, fields in orders.items() for address, text in fields.items()
    )


def _absent(cluster: str, address: str) -> str:
    return f"cluster {cluster} has no endpoint {address}; the value takes effect when it registers"

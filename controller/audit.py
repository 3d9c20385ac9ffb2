"""The audit log: what changed between two states, one event a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller.state import Explained, State
from tidegate.domain.sample import Status
from tidegate.store.ports import Event

OPERATOR: Final = "redis key"
CONTROLLER: Final = "controller"
SERVES: Final = "serves"
UNKNOWN: Final = "unknown"


def changes(before: State, after: State, at_ms: int) -> list[Event]:
    """Events for orders that came, changed or went, for values refused, and for replicas that changed state.

    ready and idle are one state, `serves`; a replica without a fresh sample is `unknown`. Weights that move with
    load are no events: they are in `explain:`.
    """
    events = [*_orders(before, after), *_refusals(before, after), *_states(before, after)]
    return [Event(at_ms=at_ms, **event) for event in events]


def _orders(before: State, after: State) -> Iterator[dict[str, str]]:
    for kind, old, new in (
        ("weight", before.intent.pins, after.intent.pins),
        ("drain", before.intent.drains, after.intent.drains),
    ):
        was, now = _flat(old), _flat(new)
        for place in sorted(was.keys() | now.keys()):
            if was.get(place) != now.get(place):
                yield {
                    "who": OPERATOR,
                    "what": f"{kind}:{place[0]} {place[1]}",
                    "before": _text(was.get(place)),
                    "after": _text(now.get(place)),
                    "why": "cleared" if place not in now else "set",
                }


def _refusals(before: State, after: State) -> Iterator[dict[str, str]]:
    for key, why in sorted(after.intent.rejected.items()):
        if before.intent.rejected.get(key) != why:
            yield {"who": CONTROLLER, "what": f"rejected {key}", "why": why}


def _states(before: State, after: State) -> Iterator[dict[str, str]]:
    for cluster, replicas in after.explained.items():
        known = before.explained.get(cluster, {})
        for address, why in replicas.items():
            was, now = _state(known.get(address)), _state(why)
            if was != now:
                yield {
                    "who": CONTROLLER,
                    "what": f"status:{cluster} {address}",
                    "before": was,
                    "after": now,
                    "why": str(why.get("reason", "")),
                }
        yield from _departures(cluster, known, replicas)


def _departures(cluster: str, known: Mapping[str, Any], replicas: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for address in sorted(known.keys() - replicas.keys()):
        what = f"status:{cluster} {address}"
        yield {"who": CONTROLLER, "what": what, "before": _state(known[address]), "why": "no longer a member"}


def _state(why: Mapping[str, Any] | None) -> str:
    if why is None:
        return ""
    status = why.get("status")
    return SERVES if status in {Status.READY, Status.IDLE} else str(status or UNKNOWN)


def _flat(orders: Mapping[str, Mapping[str, object]]) -> dict[tuple[str, str], object]:
    return {(cluster, address): value for cluster, o in orders.items() for address, value in o.items()}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def explained_alike(one: Explained, other: Explained, cluster: str) -> bool:
    """Whether two states explain a cluster with the same words; ages and load figures may differ."""
    return _words(one.get(cluster, {})) == _words(other.get(cluster, {}))


def _words(replicas: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = ("pinned", "drained", "automatic", "reason")
    return {address: (_state(why), *(why.get(name) for name in names)) for address, why in replicas.items()}

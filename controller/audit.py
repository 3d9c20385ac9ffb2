"""The audit log: what changed between two states, one event a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def unsaid(events: Sequence[Event], said: Sequence[Event]) -> list[Event]:
    """`events` without those of an order that the log already tells: whoever changed a key may have said so.

    `said` are the newest entries of the log, oldest first; the last one about a key counts.
    """
    last = {event.what: event for event in said}
    return [e for e in events if e.who != OPERATOR or e.what not in last or last[e.what].after != e.after]


def _orders(before: State, after: State) -> Iterator[dict[str, str]]:
    was = {**before.intent.texts(), **before.tuned}
    now = {**after.intent.texts(), **after.tuned}
    over = {f"{change.key} {change.field}" for change in after.intent.settled if change.value is None}
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            yield {
                "who": CONTROLLER if name in over else OPERATOR,
                "what": name,
                "before": was.get(name, ""),
                "after": now.get(name, ""),
                "why": "its time is over" if name in over else "set" if name in now else "cleared",
            }


def _refusals(before: State, after: State) -> Iterator[dict[str, str]]:
    for key, why in sorted(after.intent.rejected.items()):
        if before.intent.rejected.get(key) != why:
            yield {"who": CONTROLLER, "what": f"rejected {key}", "why": why}


def _states(before: State, after: State) -> Iterator[dict[str, str]]:
    for cluster, replicas in after.explained.items():
        known = before.explained.get(cluster, {})
        if known is replicas:  # not decided on in between
            continue
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


def explained_alike(one: Explained, other: Explained, cluster: str) -> bool:
    """Whether two states explain a cluster with the same words; ages, weights and load figures may differ."""
    return _words(one.get(cluster, {})) == _words(other.get(cluster, {}))


def _words(replicas: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = ("pinned", "drained", "pinned_until_ms", "drained_until_ms", "reason")
    return {address: (_state(why), *(why.get(name) for name in names)) for address, why in replicas.items()}


def figures_alike(one: Mapping[str, Mapping[str, Any]] | None, other: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether two explanations of a cluster differ in nothing but the time that passed between them."""
    return one is not None and one.keys() == other.keys() and all(_figures(one[a]) == _figures(other[a]) for a in one)


def _figures(why: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in why.items() if name not in _TIMES}


_TIMES: Final = frozenset({"age_ms", "at_ms", "averaged_seconds"})

"""The leader's look at every cluster once a second: how many replicas it has, and how many it should have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from controller.audit import CONTROLLER
from controller.scaling.backlog import backlogs, unserved
from controller.scaling.metrics import Look, ScaleMetrics
from tidegate.domain.actions.effects import Effects
from tidegate.domain.errors import StoreRefused
from tidegate.domain.lease import Lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.scaling import settings as scaling
from tidegate.domain.scaling.crew import Crew, crew_of
from tidegate.domain.scaling.order import ORDER, ordered
from tidegate.domain.scaling.rule import Course, Orders, decide
from tidegate.domain.scaling.settings import ScaleSettings
from tidegate.domain.topology import Topology
from tidegate.domain.tuning import EVERYWHERE, Tunes, tune_key, typed_for
from tidegate.store.ports import Event, Store

log = structlog.get_logger("controller.scaling")

Explained = Mapping[str, Mapping[str, Mapping[str, Any]]]
EVERY_SECONDS: Final = 1.0


class Scaling:
    """A Duty. Belongs to one task.

    What it goes on from is in the store, but for how long a load has been high or low, which begins anew with a lease.
    Of a store that lost it, what this process knows is written back.
    """

    name = "scaling"
    every_seconds = EVERY_SECONDS

    def __init__(self, store: Store, topology: Topology, metrics: ScaleMetrics) -> None:
        self._store, self._metrics = store, metrics
        self._names = [cluster.name for cluster in topology.clusters]
        self._courses: dict[str, Course] = {}
        self._lease: Lease | None = None

    async def tick(self, lease: Lease) -> None:
        """Look at every cluster and write the targets that changed. Raises NotLeading and StoreError."""
        now_ms = round(await self._store.time_ms())
        written = await self._store.targets(self._names)
        if lease != self._lease:
            self._courses, self._lease = {**_rested(self._courses), **written}, lease
        keys = await self._store.operator_keys(self._names, ())
        tunes, effects = keys.good_tunes(), await self._store.effects()
        rules = {name: settings_of(name, tunes) for name in self._names}
        crews = await self._crews(rules, now_ms)
        courses = {
            name: decide(
                self._courses.get(name), crew, _orders(name, rules[name], effects, now_ms), rules[name], now_ms
            )
            for name, crew in crews.items()
        }
        courses = {**{name: course for name, course in self._courses.items() if name in self._names}, **courses}
        await self._write(courses, written, now_ms, lease)
        self._metrics.tell({name: Look(crews.get(name, Crew()), course) for name, course in courses.items()})
        await self._end_orders(keys.tunes, now_ms, lease)

    async def _crews(self, rules: Mapping[str, ScaleSettings], now_ms: int) -> dict[str, Crew]:
        """Of every cluster that somebody has decided on. What waits is only asked where it may matter."""
        explained = {name: one for name, one in (await self._store.explain(self._names)).items() if one}
        crews = {name: crew_of(one) for name, one in explained.items()}
        at_none = [name for name in self._names if (known := self._courses.get(name)) and not known.automatic.desired]
        busy = [name for name, crew in crews.items() if crew.load is not None and crew.load > rules[name].aimed]
        if not at_none and not busy:
            return crews
        present = (await self._store.present()).get("ext_proc", {})
        asked = unserved(present, now_ms)
        waiting = backlogs(await self._store.samples(busy) if busy else (), present)
        for name in {*at_none, *busy}:
            crews[name] = crew_of(explained.get(name, {}), backlog=waiting.get(name, 0.0), asked=name in asked)
        return crews

    async def _write(
        self, courses: Mapping[str, Course], written: Mapping[str, Course], now_ms: int, lease: Lease
    ) -> None:
        """What changed, what is missing (Redis was emptied), and what somebody else wrote there."""
        events, changed = [], {}
        for name, course in courses.items():
            before = self._courses.get(name)
            stored = written.get(name)
            if stored is None or _told(stored) != _told(course):
                changed[name] = course
            if before is not None and stored is not None and stored.target.desired != before.target.desired:
                events.append(_refusal(name, stored, now_ms))
            if before is None or before.target.desired != course.target.desired:
                events.append(_event(name, before, course, now_ms))
        if changed or events:
            await self._store.write_targets(changed, events, lease=lease)
        for name, course in courses.items():
            before = self._courses.get(name)
            if before is not None and before.target.desired != course.target.desired:
                self._metrics.changed.labels(cluster=name, reason=course.target.reason.value).inc()
                log.info("replica target changed", cluster=name, desired=course.target.desired, why=course.target.why)
        self._courses = dict(courses)

    async def _end_orders(self, tunes: Tunes, now_ms: int, lease: Lease) -> None:
        """An order that was typed `for` a while gets its end; one whose time is over loses its field."""
        changes, events = [], []
        for scope in (EVERYWHERE, *self._names):
            text = tunes.get(scope, {}).get(ORDER.name)
            if text is None or (change := _settled(scope, text, now_ms)) is None:
                continue
            changes.append(change)
            why = "its time is over" if change.value is None else "its end is a time"
            what, after = tune_key(scope, ORDER.name), change.value or ""
            events.append(Event(at_ms=now_ms, who=CONTROLLER, what=what, before=text, after=after, why=why))
        if not changes:
            return
        try:
            await self._store.change_fields(changes, events, lease=lease)
        except StoreRefused as exc:  # no EVAL for us
            log.warning("the end of an order is not written down", error=str(exc))
            return
        await self._store.nudge()


def settings_of(cluster: str, tunes: Tunes) -> ScaleSettings:
    """Those of one cluster: the defaults, with what `tune` and then `tune:{cluster}` set. `tunes` hold no bad value."""
    return scaling.tuned(scaling.DEFAULT, typed_for(cluster, tunes), scaling.DEFAULT)[0]


def _orders(cluster: str, rules: ScaleSettings, effects: Effects, now_ms: int) -> Orders:
    return Orders(replicas=ordered(rules.replicas, now_ms)[0], alert=effects.scale.get(cluster))


def _settled(scope: str, text: str, now_ms: int) -> FieldChange | None:
    try:
        ORDER.read(text)
    except ValueError:  # `rejected` says why
        return None
    timed = ordered(text, now_ms)[1]
    if not timed.spoken and not timed.is_over(now_ms):
        return None
    key = tune_key(scope, "").rstrip()
    value = None if timed.is_over(now_ms) else timed.text
    return FieldChange(key=key, field=ORDER.name, value=value, only_if=text)


def _rested(courses: Mapping[str, Course]) -> dict[str, Course]:
    return {name: Course(target=course.target, automatic=course.automatic) for name, course in courses.items()}


def _told(course: Course) -> tuple[object, ...]:
    """What readers are told of a course. Words with figures in them change nothing by themselves."""
    target, automatic = course.target, course.automatic
    return (target.desired, target.reason, target.since_ms, automatic.desired, automatic.since_ms)


def _event(cluster: str, before: Course | None, course: Course, now_ms: int) -> Event:
    target = course.target
    was = "" if before is None else str(before.target.desired)
    why = f"{target.reason}: {target.why}"
    return Event(at_ms=now_ms, who=CONTROLLER, what=f"scale:{cluster}", before=was, after=str(target.desired), why=why)


def _refusal(cluster: str, stored: Course, now_ms: int) -> Event:
    number = stored.target.desired
    why = f"the controller writes this key; `tidegate scale set {cluster} {number}` orders {number} replicas"
    return Event(at_ms=now_ms, who=CONTROLLER, what=f"rejected scale:{cluster}", before=str(number), why=why)

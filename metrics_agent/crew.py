"""The watchers of a node: one task an engine, begun and ended as engines are registered and leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog

from metrics_agent.instruments import Instruments
from metrics_agent.scrape.watcher import EngineWatcher
from metrics_agent.targets import Place, Source, Target
from tidegate.runtime import Service

log = structlog.get_logger("metrics_agent.crew")


class Engines(Protocol):
    """What the publisher asks: who is watched, and who left without the store knowing."""

    @property
    def watchers(self) -> Sequence[EngineWatcher]:
        """One an engine."""

    @property
    def gone(self) -> set[Place]:
        """Places that left; whoever tells the store takes them out."""


class Crew:
    """Owns the watchers. `make` builds one; `service` supervises its task. Use from one event loop."""

    def __init__(self, service: Service, make: Callable[[Target], EngineWatcher], instruments: Instruments) -> None:
        self._service, self._make, self._instruments = service, make, instruments
        self._watched: dict[Place, tuple[EngineWatcher, asyncio.Task[None]]] = {}
        self.gone: set[Place] = set()

    @property
    def watchers(self) -> list[EngineWatcher]:
        """One an engine, in the order in which they came."""
        return [watcher for watcher, _ in self._watched.values()]

    def watch(self, targets: Sequence[Target]) -> None:
        """Watch these engines and no others. One whose registration changed is watched anew."""
        wanted = {target.place: target for target in targets}
        for place in [place for place in self._watched if place not in wanted]:
            self._leave(place)
        for place, target in wanted.items():
            known = self._watched.get(place)
            if known is None or known[0].target != target:
                self._join(place, target)
        self._count(targets)

    def departing(self) -> set[Place]:
        """Places that leave when this agent ends: those that no file names, and those of `gone`."""
        return self.gone | {w.target.place for w in self.watchers if w.target.source is not Source.FILE}

    def _join(self, place: Place, target: Target) -> None:
        self._dismiss(place)
        self.gone.discard(place)
        watcher = self._make(target)
        task = self._service.spawn(f"scrape {target.address}", watcher.run)
        self._watched[place] = (watcher, task)
        log.info("engine registered", cluster=target.cluster, address=target.address, source=target.source.value)

    def _leave(self, place: Place) -> None:
        self._dismiss(place)
        self.gone.add(place)
        if place[1] not in {address for _, address in self._watched}:
            self._instruments.forget(place[1])
        log.info("engine left", cluster=place[0], address=place[1])

    def _dismiss(self, place: Place) -> None:
        if place in self._watched:
            _, task = self._watched.pop(place)
            task.cancel()

    def _count(self, targets: Iterable[Target]) -> None:
        sources = [target.source for target in targets]
        for source in Source:
            self._instruments.engines.labels(source.value).set(sources.count(source))

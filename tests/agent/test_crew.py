"""Watchers begin and end as engines come and go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from metrics_agent.crew import Crew
from metrics_agent.instruments import Instruments
from metrics_agent.targets import Source, Target
from tests.conftest import until
from tidegate.domain.topology import Precision
from tidegate.runtime import Service

FILED = Target("c", "a:1")
FLAGGED = Target("c", "b:1", source=Source.FLAG)
DROPPED = Target("c", "d:1", source=Source.FOLDER)


class Watcher(SimpleNamespace):
    """Counts those that run."""

    running: list[str]

    async def run(self):
        self.running.append(self.target.address)
        try:
            await asyncio.Event().wait()
        finally:
            self.running.remove(self.target.address)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def running():
    return []


@pytest.fixture
async def crew(registry, running):
    service = Service("agent", registry)
    instruments = Instruments(registry)
    one = Crew(service, lambda target: Watcher(target=target, running=running, latest=None), instruments)
    one.instruments = instruments
    yield one
    service.stop()
    await service.run_until_stopped()


async def test_watchers_follow_the_targets(crew, running):
    crew.watch([FILED, FLAGGED])
    await until(lambda: sorted(running) == ["a:1", "b:1"])
    crew.watch([FLAGGED, DROPPED])
    await until(lambda: sorted(running) == ["b:1", "d:1"])
    assert crew.gone == {FILED.place}


async def test_same_targets_change_nothing(crew):
    crew.watch([FILED, FLAGGED])
    before = crew.watchers
    crew.watch([FLAGGED, FILED])
    assert crew.watchers == before


async def test_changed_registration_is_watched_anew_and_did_not_leave(crew, running):
    crew.watch([DROPPED])
    changed = Target("c", "d:1", precision=Precision.INT4, source=Source.FOLDER)
    crew.watch([changed])
    await until(lambda: running == ["d:1"])
    assert [w.target for w in crew.watchers] == [changed]
    assert crew.gone == set()


async def test_engine_that_comes_back_is_not_gone(crew):
    crew.watch([DROPPED])
    crew.watch([])
    assert crew.gone == {DROPPED.place}
    crew.watch([DROPPED])
    assert crew.gone == set()


async def test_engines_of_the_file_stay_when_the_agent_ends(crew):
    crew.watch([FILED, FLAGGED, DROPPED])
    crew.watch([FILED, FLAGGED])
    assert crew.departing() == {FLAGGED.place, DROPPED.place}


async def test_metrics_of_an_engine_end_with_it(crew, registry):
    crew.watch([DROPPED, FILED])
    for address in ("d:1", "a:1"):
        crew.instruments.sample_age_seconds.labels(address).set(1)
        crew.instruments.scrape_failures.labels(address, "timeout").inc()
    crew.watch([FILED])
    said = registry.get_sample_value
    assert said("tidegate_agent_sample_age_seconds", {"endpoint": "d:1"}) is None
    assert said("tidegate_agent_scrape_failures_total", {"endpoint": "d:1", "cause": "timeout"}) is None
    assert said("tidegate_agent_sample_age_seconds", {"endpoint": "a:1"}) == 1
    assert said("tidegate_agent_engines", {"source": "file"}) == 1
    assert said("tidegate_agent_engines", {"source": "folder"}) == 0

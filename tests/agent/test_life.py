"""States of an engine."""

from __future__ import annotations

import pytest

from metrics_agent.scrape.life import Failure, Life
from metrics_agent.scrape.reading import Reading
from tidegate.domain.sample import Status

UP = Life().after_health(True).after_page()
BUSY, IDLE = Reading(running=1, waiting=0), Reading(running=0, waiting=0)


@pytest.mark.parametrize(
    ("expected", "life", "reading"),
    [
        pytest.param(Status.LOADING, Life(), BUSY, id="nothing-heard"),
        pytest.param(Status.LOADING, Life().after_page(), BUSY, id="page-without-health"),
        pytest.param(Status.LOADING, Life().after_health(True), BUSY, id="health-without-page"),
        pytest.param(Status.LOADING, UP.after_health(False), BUSY, id="health-lost"),
        pytest.param(Status.READY, Life().after_health(None).after_page(), BUSY, id="metrics-for-want-of-health"),
        pytest.param(
            Status.LOADING, Life().after_health(None).after_page(shows_engine=False), BUSY, id="neither-says-anything"
        ),
        pytest.param(Status.READY, UP, BUSY, id="busy"),
        pytest.param(Status.IDLE, UP, IDLE, id="idle"),
        pytest.param(Status.READY, UP, Reading(running=0), id="unknown-queue-is-not-idle"),
        pytest.param(Status.ASLEEP, UP, Reading(running=0, waiting=0, awake=False), id="asleep"),
        pytest.param(Status.IDLE, UP, Reading(running=0, waiting=0, awake=True), id="awake"),
        pytest.param(Status.UNREACHABLE, UP.after_failure(Failure.REFUSED), IDLE, id="refused-at-once"),
        pytest.param(Status.IDLE, UP.after_failure(Failure.TIMEOUT), IDLE, id="one-timeout-may-pass"),
        pytest.param(
            Status.UNREACHABLE, UP.after_failure(Failure.TIMEOUT).after_failure(Failure.BROKEN), IDLE, id="second"
        ),
        pytest.param(
            Status.IDLE,
            UP.after_failure(Failure.TIMEOUT).after_page().after_failure(Failure.TIMEOUT),
            IDLE,
            id="a-page-between-starts-over",
        ),
        pytest.param(
            Status.LOADING, UP.after_failure(Failure.REFUSED).after_page(), IDLE, id="back-but-health-not-asked"
        ),
        pytest.param(
            Status.IDLE,
            UP.after_failure(Failure.REFUSED).after_health(True).after_page(),
            IDLE,
            id="back",
        ),
    ],
)
def test_status(expected, life, reading):
    assert life.status(reading) is expected

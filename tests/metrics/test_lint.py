"""promtool, Prometheus' own checker, has nothing to say of any page: help, units, suffixes, labels of types."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import parser

from outcomes.book import Book
from outcomes.page import Page
from outcomes.server import AccessLogs
from outcomes.versions_page import VersionsPage
from tests.deploy.tools import found
from tests.ext_proc.parts import Picker
from tests.outcomes.entries import outcome
from tidegate.cli.binaries import promtool_binary
from tidegate.cli.metrics.registries import running
from tidegate.exposition import OPEN_METRICS, Families, page_of

open_metrics: Any = parser.text_string_to_metric_families


def served() -> CollectorRegistry:
    """Outcomes, with times of a cluster, its replica and its version."""
    registry, book = CollectorRegistry(), Book(lambda: 0, split_models={"m"})
    logs = AccessLogs(book.add)
    Page(registry, book, logs, {}, dict, lambda: 0)
    VersionsPage(registry, book, lambda: 0)
    book.add(outcome())
    return registry


def picked() -> CollectorRegistry:
    """ext_proc, after a request and a refusal."""
    picker = Picker()
    picker.sample("10.0.0.1:8000")
    picker.ask()
    picker.ask("nobody else's")
    return picker.registry


def said_of(registry: CollectorRegistry) -> str:
    """What promtool finds; empty when it finds nothing."""
    page = page_of(Families(registry), None, None).body
    command = [str(found(promtool_binary)), "check", "metrics"]
    return subprocess.run(command, input=page, stderr=subprocess.PIPE, timeout=60, check=False).stderr.decode()


async def test_promtool_finds_nothing_to_say_of_any_service() -> None:
    async with running() as registries:
        found_in = {service: said_of(registry) for service, registry in registries.items()}
    assert found_in == dict.fromkeys(registries, "")


@pytest.mark.parametrize("registry", [served(), picked()], ids=["outcomes", "ext-proc"])
def test_promtool_finds_nothing_to_say_of_series_that_requests_make(registry: CollectorRegistry) -> None:
    assert said_of(registry) == ""


def test_times_of_the_last_minute_are_summaries_in_both_formats() -> None:
    page = page_of(Families(served()), OPEN_METRICS, None).body.decode()
    summaries = {one.name: one for one in open_metrics(page) if one.type == "summary"}
    assert {name.removeprefix("tidegate_outcomes_") for name in summaries} == {
        "ttfb_seconds",
        "total_seconds",
        "version_seconds",
    }
    for one in summaries.values():
        assert {sample.labels["quantile"] for sample in one.samples} == {"0.5", "0.95", "0.99"}

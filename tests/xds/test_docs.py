"""docs/xds.md lists every fact, every test of one and every metric."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from xds_server.metrics import ClientStates, XdsMetrics

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "xds.md").read_text()
ROWS = dict(re.findall(r"^\| (\d+) \| .*? \| (.*) \|$", TEXT, re.MULTILINE))


def defined(pattern: str) -> set[str]:
    sources = (path.read_text() for path in (ROOT / "tests" / "xds").glob("test_*.py"))
    return {name for source in sources for name in re.findall(rf"^(?:async )?def ({pattern})\(", source, re.MULTILINE)}


def test_every_fact_has_a_row() -> None:
    assert [int(number) for number in ROWS] == list(range(1, 57))


@pytest.mark.parametrize("number", ROWS)
def test_a_row_names_the_tests_of_its_fact_and_no_other(number: str) -> None:
    named = set(re.findall(r"test_\w+[a-z]", ROWS[number]))
    assert {name for name in named if name.startswith("test_fact_")} == defined(rf"test_fact_{int(number):02}_\w+")
    assert named <= defined(r"test_\w+")


def test_the_metrics_are_those_of_the_registry() -> None:
    registry = CollectorRegistry()
    XdsMetrics(registry)
    families = [*registry.collect(), *ClientStates(list, CollectorRegistry()).collect()]
    there = {f.name + ("_total" if f.type == "counter" else "") for f in families}
    assert set(re.findall(r"^\| `(tidegate_xds_\w+)`", TEXT, re.MULTILINE)) == there

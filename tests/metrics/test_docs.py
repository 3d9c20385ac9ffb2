"""docs/metrics.md lists what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ext_proc.workers_sums import ALIKE, LEAST, SUMMED
from tidegate.cli.metrics.page import ENGINE_PAGES, metrics_page
from tidegate.cli.metrics.registries import Found

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
AGAIN = "run `make docs`"
UNITS_THAT_NAMES_SHUN = r"_(ms|us|milliseconds|percent|perc|kb|mb|gb|minutes|hours)(_|$)"


def ours(services: Found) -> dict[str, str]:
    """Name → type of all that is ours: engines have the names of what they simulate."""
    return {
        name: family.kind
        for service, families in services.items()
        if not service.startswith(ENGINE_PAGES)
        for name, family in families.items()
    }


def test_every_metric_that_exists_is_in_the_docs(services: Found) -> None:
    listed = set(
        re.findall(r"^\| `([a-z_:0-9]+)` \| (?:counter|gauge|histogram|summary|info) ", DOCS.read_text(), re.MULTILINE)
    )
    assert {name for families in services.values() for name in families} - listed == set(), AGAIN


def test_every_metric_of_the_docs_exists(services: Found) -> None:
    named = set(re.findall(r"\btidegate_[a-z_]+", DOCS.read_text()))
    parts = {f"{name}{part}" for name, kind in ours(services).items() for part in _parts(kind)}
    assert named - parts == set(), AGAIN


def _parts(kind: str) -> tuple[str, ...]:
    return ("", "_bucket", "_sum", "_count") if kind == "histogram" else ("",)


def test_the_page_is_what_the_registries_say(services: Found) -> None:
    assert DOCS.read_text() == metrics_page(services), AGAIN


def test_names_are_ours_say_their_unit_and_whether_they_count(services: Found) -> None:
    for name, kind in ours(services).items():
        assert re.fullmatch(r"tidegate(_[a-z0-9]+)+", name), name
        assert not re.search(UNITS_THAT_NAMES_SHUN, name), name
        assert name.endswith("_total") == (kind == "counter"), name


def test_every_metric_has_a_meaning(services: Found) -> None:
    assert [name for families in services.values() for name, family in families.items() if not family.meaning] == []


@pytest.mark.parametrize(("names", "kind"), [(SUMMED, "gauge"), (LEAST, "gauge"), (ALIKE, "counter")])
def test_what_is_joined_otherwise_for_several_workers_exists(services: Found, names: frozenset[str], kind: str) -> None:
    there = {name.removesuffix("_total") for name, one in services["ext-proc"].items() if one.kind == kind}
    assert names - there == set()

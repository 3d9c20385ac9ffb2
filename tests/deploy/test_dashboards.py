"""Dashboards are as their source says, whole, and ask Prometheus for what there is."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.boards import BOARDS
from deploy.grafana.render import render
from tests.deploy.compose import ROOT
from tests.deploy.queries import DASHBOARDS, asked, metrics_of, panels
from tests.deploy.tools import RULES, promtool, rules

ASKED = asked()
COLUMNS = 24


def board(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def name_of(path: Path) -> str:
    return path.stem


@cache
def known_metrics() -> set[str]:
    """Names of docs/metrics.md as Prometheus stores them, and those of the recording rules."""
    named: set[str] = set()
    for name, kind in re.findall(
        r"^\| `(tidegate_\w+)` \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE
    ):
        named |= {f"{name}{end}" for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return named | {rule["record"] for rule in rules(*RULES) if "record" in rule}


@pytest.mark.parametrize("made", BOARDS, ids=lambda made: made.uid)
def test_file_is_what_its_source_says(made: Any) -> None:
    """`make dashboards` writes it."""
    assert render(made) == (ROOT / f"deploy/grafana/dashboards/{made.uid}.json").read_text()


def test_every_file_has_a_source() -> None:
    assert {made.uid for made in BOARDS} == {path.stem for path in DASHBOARDS}


@pytest.mark.parametrize("path", DASHBOARDS, ids=name_of)
def test_panel_says_what_it_shows_and_in_what_unit(path: Path) -> None:
    for panel in panels(board(path)):
        assert panel["title"], panel
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=name_of)
def test_panels_fill_the_width_and_lie_beside_one_another(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board(path)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("path", DASHBOARDS, ids=name_of)
def test_variables_are_those_that_queries_use(path: Path) -> None:
    variables = {one["name"] for one in board(path)["templating"]["list"]}
    used = {name for one in ASKED if one.board == path.stem for name in re.findall(r"\$\{?(\w+)", one.expr)}
    assert used - {"__rate_interval", "__range"} == variables - {"datasource"}


@pytest.mark.parametrize("path", DASHBOARDS, ids=name_of)
def test_titles_of_panels_differ(path: Path) -> None:
    """A link or a sentence that names a panel means one."""
    titles = [panel["title"] for panel in board(path)["panels"]]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("path", DASHBOARDS, ids=name_of)
def test_ids_of_panels_differ(path: Path) -> None:
    ids = [panel["id"] for panel in board(path)["panels"]]
    assert len(ids) == len(set(ids))


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    recorded = [{"record": f"q{number}", "expr": one.filled} for number, one in enumerate(ASKED)]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    promtool("check", "rules", tmp_path / "queries.yml")


@pytest.mark.parametrize("one", ASKED, ids=lambda one: one.id)
def test_query_names_metrics_that_exist(one: Any) -> None:
    named = {name for name in metrics_of(one.expr) if not name.startswith("envoy_")}
    assert named <= known_metrics()


def test_rules_name_metrics_that_exist() -> None:
    named = {name for rule in rules(*RULES) for name in metrics_of(rule["expr"])}
    assert named <= known_metrics()


def test_grafana_finds_the_dashboards_and_prometheus() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    interval = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == interval

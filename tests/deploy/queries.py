"""Queries of dashboards as Prometheus is asked them, and the metrics that they name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.deploy.compose import ROOT

DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
# What Grafana puts in place of its own variables; a dashboard's are regular expressions that hold for all.
BUILT_IN = {"$__rate_interval": "10s", "$__range": "1m", "$__interval": "1s"}


@dataclass(frozen=True)
class Asked:
    """One query of a panel."""

    board: str
    panel: str
    ref: str
    expr: str

    @property
    def id(self) -> str:
        return f"{self.board}/{self.panel}/{self.ref}"

    @property
    def filled(self) -> str:
        """The query with every variable replaced."""
        expr = self.expr
        for name, value in BUILT_IN.items():
            expr = expr.replace(name, value)
        return re.sub(r"\$\{?\w+\}?", ".*", expr)


def dashboard(name: str) -> dict[str, Any]:
    return json.loads((ROOT / f"deploy/grafana/dashboards/{name}.json").read_text())


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels with queries."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def asked() -> list[Asked]:
    """Every query of every dashboard."""
    found = []
    for path in DASHBOARDS:
        for panel in panels(json.loads(path.read_text())):
            found += [Asked(path.stem, panel["title"], t["refId"], t["expr"]) for t in panel["targets"]]
    return found


def metrics_of(expr: str) -> set[str]:
    """Names of ours, of recording rules too, and of Envoy's."""
    return set(re.findall(r"\b(?:[a-z_]+:)?(?:tidegate|envoy)_[a-z0-9_:]+", expr))

"""The files of deploy/ with shorter times and nothing else changed: what a test can wait for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.compose import ROOT
from tests.deploy.tools import RULES

WINDOW, HELD = "6s", "2s"
GROUPED = {"group_wait": "0s", "group_interval": "1s", "repeat_interval": "1m"}


def quick_files(folder: Path) -> Path:
    """A copy of deploy/prometheus and deploy/alertmanager in `folder`, as `tidegate up --monitoring-files` wants it."""
    for name in ("prometheus", "alertmanager"):
        shutil.copytree(ROOT / "deploy" / name, folder / name)
    for path in RULES:
        (folder / "prometheus/rules" / path.name).write_text(yaml.safe_dump(quick_rules(path)))
    alertmanager = folder / "alertmanager/alertmanager.yml"
    alertmanager.write_text(yaml.safe_dump(quick_routes(yaml.safe_load(alertmanager.read_text()))))
    return folder


def quick_rules(path: Path) -> dict[str, Any]:
    """The rules of a file: windows and waits are seconds, expressions are as they were."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    for rule in (rule for group in document["groups"] for rule in group["rules"]):
        rule["expr"] = re.sub(r"\[\d+[mh]\]", f"[{WINDOW}]", rule["expr"])
        if "for" in rule:
            rule["for"] = HELD
    return document


def quick_routes(document: dict[str, Any]) -> dict[str, Any]:
    """Alertmanager's routes with next to no waiting."""
    for route in document["route"]["routes"]:
        route.update(GROUPED)
    return document

"""The rules of Prometheus are sound, each alert fires when it should and only then, and is described."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.deploy.alert_cases import CASES, LONG_STEP, STEP
from tests.deploy.compose import ROOT
from tests.deploy.tools import RULES, alerts, amtool, promtool

ALERTS = alerts(*RULES)
RECORDING = ROOT / "deploy/prometheus/rules/recording.yml"
ALERTING = [path for path in RULES if path != RECORDING]


def test_promtool_accepts_the_configuration() -> None:
    promtool("check", "config", ROOT / "deploy/prometheus/prometheus.yml")


def test_promtool_finds_nothing_to_say_of_the_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", *RULES)


def test_amtool_accepts_the_configuration() -> None:
    amtool("check-config", ROOT / "deploy/alertmanager/alertmanager.yml")


@pytest.mark.parametrize("step", [STEP, LONG_STEP])
@pytest.mark.parametrize("path", ALERTING, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_only_then(path: Path, step: str, tmp_path: Path) -> None:
    """promtool says of each case that fails its name, what it expected and what came."""
    cases = [case.unit(ALERTS[case.alert]) for case in CASES if case.alert in alerts(path) and case.step == step]
    document = {"rule_files": [str(RECORDING), str(path)], "evaluation_interval": step, "tests": cases}
    (tmp_path / "cases.yml").write_text(json.dumps(document))
    promtool("test", "rules", tmp_path / "cases.yml")


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_has_cases_of_both_kinds(alert: str) -> None:
    assert {bool(case.fires) for case in CASES if case.alert == alert} == {True, False}


def test_cases_are_of_alerts_that_exist() -> None:
    assert {case.alert for case in CASES} <= set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_says_what_it_is_and_where_to_read_on(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor == alert.lower()
    assert alert in headings

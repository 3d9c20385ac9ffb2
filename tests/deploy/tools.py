"""Prometheus' own checkers, run on files of the checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.compose import ROOT
from tidegate.cli.binaries import alertmanager_binary, amtool_binary, prometheus_binary, promtool_binary
from tidegate.domain.errors import BinaryNotFound

RULES = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))


def found(binary: Callable[[], Path]) -> Path:
    """The program; without it the test is skipped, and fails on CI, which has to run it."""
    try:
        return binary()
    except BinaryNotFound as exc:
        if os.environ.get("CI"):
            pytest.fail(str(exc))
        pytest.skip(str(exc))


def check(binary: Callable[[], Path], *arguments: str | Path) -> None:
    """Run it; what it says is the failure."""
    done = subprocess.run([found(binary), *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def promtool(*arguments: str | Path) -> None:
    check(promtool_binary, *arguments)


def amtool(*arguments: str | Path) -> None:
    check(amtool_binary, *arguments)


def need_both() -> None:
    """Prometheus and Alertmanager are here."""
    found(prometheus_binary)
    found(alertmanager_binary)


def rules(*paths: Path) -> list[dict[str, Any]]:
    """Every rule of these files, recording ones too."""
    groups = [group for path in paths for group in yaml.safe_load(path.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts(*paths: Path) -> dict[str, dict[str, Any]]:
    """Alerting rules of these files by name."""
    return {rule["alert"]: rule for rule in rules(*paths) if "alert" in rule}

"""fetch.sh leaves alone what is there, and says in one sentence what it cannot have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.compose import ROOT

PROGRAMS = ("prometheus", "promtool", "alertmanager", "amtool")
VARIABLES = ("TIDEGATE_PROMETHEUS", "TIDEGATE_PROMTOOL", "TIDEGATE_ALERTMANAGER", "TIDEGATE_AMTOOL")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with what the script needs, and no apt."""
    folder = tmp_path / "path"
    folder.mkdir()
    for tool in ("bash", "mktemp", "mkdir", "rm", "env"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    return folder


def fetch(into: Path, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("bash") or "bash", str(ROOT / "deploy/prometheus/fetch.sh"), str(into)]
    environment = {"PATH": str(path), **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def program(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_without_apt_it_says_what_is_skipped_and_what_to_do(tmp_path: Path, path: Path) -> None:
    done = fetch(tmp_path / "tools", path)
    assert done.returncode == 0
    assert "there is no apt-get here" in done.stderr
    assert "are skipped" in done.stderr
    assert all(variable in done.stderr for variable in VARIABLES)
    assert not (tmp_path / "tools").exists()


def test_programs_on_the_path_are_enough(tmp_path: Path, path: Path) -> None:
    for name in PROGRAMS:
        program(path / name)
    done = fetch(tmp_path / "tools", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_programs_that_the_environment_names_are_enough(tmp_path: Path, path: Path) -> None:
    done = fetch(tmp_path / "tools", path, **dict.fromkeys(VARIABLES, "/opt/program"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_three_of_four_are_not_enough(tmp_path: Path, path: Path) -> None:
    for name in PROGRAMS[:3]:
        program(path / name)
    assert "there is no apt-get here" in fetch(tmp_path / "tools", path).stderr


def test_what_was_fetched_is_not_fetched_again(tmp_path: Path, path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/.ready").touch()
    done = fetch(tmp_path / "tools", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

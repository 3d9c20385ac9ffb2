"""The Dockerfile copies what exists, the whole project, and runs without root."""

from __future__ import annotations

import fnmatch
import tomllib
from typing import Any

import pytest

from tests.deploy.compose import ROOT

LINES = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines() if line and line[0] != "#"]
COPIED = [source for line in LINES if line[0] == "COPY" for source in line[1:-1]]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def values(instruction: str) -> list[str]:
    return [" ".join(line[1:]) for line in LINES if line[0] == instruction]


@pytest.mark.parametrize("source", COPIED)
def test_copied_source_exists(source: str) -> None:
    assert (ROOT / source).exists()


@pytest.mark.parametrize("source", COPIED)
def test_copied_source_is_in_the_build_context(source: str) -> None:
    """.dockerignore starts with everything and takes back what the image needs."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    assert any(fnmatch.fnmatch(source, line[1:]) for line in lines if line.startswith("!"))


def test_every_package_of_the_wheel_is_copied() -> None:
    packages = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(COPIED)


def test_files_that_the_build_reads_are_copied() -> None:
    assert {"pyproject.toml", project()["project"]["readme"], *project()["project"]["license-files"]} <= set(COPIED)


def test_locked_dependencies_are_installed() -> None:
    assert any("-r requirements.lock" in command for command in values("RUN"))


def test_image_runs_as_a_user_that_is_not_root() -> None:
    assert values("USER")[-1] not in {"root", "0"}
    assert any(f" {values('USER')[-1]}" in command for command in values("RUN") if "useradd" in command)


def test_entry_point_is_the_project_script() -> None:
    assert values("ENTRYPOINT") == ['["tidegate"]']
    assert "tidegate" in project()["project"]["scripts"]

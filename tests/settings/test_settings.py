"""Flags, environment names and docs/settings.md all come from the settings classes."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.settings.docs import settings_page
from tidegate.settings.flags import default_of, env_names
from tidegate.settings.services import (
    AgentSettings,
    EngineSimSettings,
    ExtProcSettings,
    OutcomesSettings,
    XdsSettings,
)

SERVICES = {
    "xds": XdsSettings,
    "ext-proc": ExtProcSettings,
    "outcomes": OutcomesSettings,
    "agent": AgentSettings,
    "engine-sim": EngineSimSettings,
}
PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_is_what_the_settings_say() -> None:
    """Defaults, units and reasons are frozen by the page: `make docs` writes it anew."""
    assert PAGE.read_text() == settings_page()


@pytest.mark.parametrize(("command", "settings"), SERVICES.items())
def test_every_field_is_a_flag_with_its_environment_name(command: str, settings: type) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "400", "TERM": "dumb"}).output
    for field in fields(settings):
        assert "--" + field.name.replace("_", "-") in shown
        assert env_names(settings, field.name)[0] in shown


@pytest.mark.parametrize("settings", SERVICES.values())
def test_every_field_says_what_it_does(settings: type) -> None:
    assert all(field.metadata["doc"] for field in fields(settings))


def test_a_service_variable_wins_over_the_shared_one() -> None:
    assert env_names(XdsSettings, "log_level") == ["TIDEGATE_XDS_LOG_LEVEL", "TIDEGATE_LOG_LEVEL"]
    assert env_names(XdsSettings, "listen") == ["TIDEGATE_XDS_LISTEN"]


def test_a_default_that_is_made_at_start_is_made_anew() -> None:
    models = next(f for f in fields(EngineSimSettings) if f.name == "model")
    assert default_of(models) == ["sim"]
    assert default_of(models) is not default_of(models)


def test_without_a_file_a_service_says_what_to_do(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        result = CliRunner().invoke(app, ["xds"])
    finally:
        os.chdir(before)
    assert "--config" in str(result.exception)

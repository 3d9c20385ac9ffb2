"""`docs/agent.md` lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from metrics_agent.instruments import Instruments
from metrics_agent.registration.flags import LISTS, WORDS, read_flags
from metrics_agent.registration.folder import EngineFolder
from metrics_agent.registration.section import EngineSection

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()
ROWS = "\n".join(line for line in PAGE.splitlines() if line.startswith("| ") and "`" in line)


def test_every_metric_is_listed_and_no_other():
    registry = CollectorRegistry()
    Instruments(registry)
    there = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    listed = {f"tidegate_agent_{name}" for name in re.findall(r"`(?:tidegate_agent|…)_([a-z_]+)", ROWS)}
    assert listed == there


def test_every_key_and_option_of_a_registration_is_listed():
    for name in (*EngineSection.model_fields, *LISTS, *WORDS):
        assert f"`{name}`" in ROWS or f"| {name} |" in ROWS, name


def test_the_examples_are_good(tmp_path):
    flags = re.findall(r"--engine (\S+=\S+:\S+)", PAGE)
    assert len(read_flags(flags[-2:])) == 2
    (tmp_path / "example.yaml").write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    folder = EngineFolder(tmp_path, clock=lambda: 1e12)
    said = folder.look()
    assert (len(said.targets), dict(said.faults)) == (1, {})

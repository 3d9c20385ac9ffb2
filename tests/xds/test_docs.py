"""docs/envoy.md names every setting of a cluster with its default."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tidegate.domain.topology import WithoutPicker
from tidegate.domain.upstream import Upstream

PAGE = (Path(__file__).parents[2] / "docs" / "envoy.md").read_text()


@pytest.mark.parametrize("name", [f.name for f in fields(Upstream) if f.name != "active_request_bias"])
def test_each_setting_has_its_reason(name: str) -> None:
    assert any(f"`{name}`" in line for line in PAGE.splitlines() if line.startswith("|"))


@pytest.mark.parametrize("choice", WithoutPicker)
def test_each_choice_without_ext_proc_is_explained(choice: WithoutPicker) -> None:
    assert f"| `{choice}` |" in PAGE

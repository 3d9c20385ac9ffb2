"""docs/tuning.md is the registry, word for word."""

from __future__ import annotations

from pathlib import Path

from tidegate.settings.tuning_docs import tuning_page

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


def test_the_page_is_what_the_registry_says() -> None:
    assert PAGE.read_text() == tuning_page(), "write it anew: make docs"

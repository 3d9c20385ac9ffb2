"""`docs/configuration.md` lists every key with its default, and its examples are good files."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tidegate.settings.config_file import parse
from tidegate.settings.config_model import FileSection
from tidegate.settings.config_sentences import _section_in

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
ROWS = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE, re.MULTILINE))


def keys(section: type[BaseModel], before: str = "") -> dict[str, Any]:
    """Dotted key → field, of a section and all within."""
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        inner = _section_in(field.annotation)
        listed = "[]" if typing.get_origin(field.annotation) is list else ""
        if inner is None or listed or field.is_required():
            found[before + name] = field
        if inner is not None:
            found |= keys(inner, f"{before}{name}{listed}.")
    return found


KEYS = {**keys(FileSection), "splits": FileSection.model_fields["splits"]}  # whose short form is no section


def as_written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("key", sorted(set(KEYS) - {"clusters", "routes", "classes"}))
def test_each_key_is_documented_with_its_default(key: str) -> None:
    field = KEYS[key]
    expected = "required" if field.is_required() else f"`{as_written(field.default)}`"
    assert f" | {expected} | " in ROWS[key]


@pytest.mark.parametrize("key", ["clusters", "routes", "classes"])
def test_each_list_has_its_chapter(key: str) -> None:
    assert f"\n## `{key}`\n" in PAGE


def test_no_key_is_documented_that_does_not_exist() -> None:
    urls = {name for name in ROWS if ":" in name}
    assert set(ROWS) - urls <= set(KEYS)


def test_each_choice_is_documented() -> None:
    choices = {key: typing.get_args(field.annotation) for key, field in KEYS.items()}
    for key, listed in choices.items():
        flat = [typing.get_args(one) or (one,) for one in listed]
        for word in (word for one in flat for word in one if isinstance(word, str)):
            assert f"`{word}`" in ROWS[key], (key, word)


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL), ids=["smallest", "whole"])
def test_the_examples_load(example: str) -> None:
    parse(example, "tidegate.yaml")

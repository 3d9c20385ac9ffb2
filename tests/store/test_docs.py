"""docs/redis.md lists every key that the schema draws, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tidegate.store.schema import Keys

PAGE = Path(__file__).parents[2] / "docs/redis.md"


def drawn() -> set[str]:
    """The names in the table of `Keys`: the first column behind the headings."""
    rows = re.findall(r"^(?:\w+: +| {13})(\S.*?) {2,}\S", inspect.cleandoc(Keys.__doc__ or ""), re.MULTILINE)
    return {name for row in rows for name in row.split(", ")}


def listed() -> set[str]:
    """The names in the first column of the page's tables."""
    cells = re.findall(r"^\| (?!key)((?:channel )?`[^|]+?) \|", PAGE.read_text(), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_page_lists_every_key() -> None:
    assert len(drawn()) > 30
    assert listed() == drawn()

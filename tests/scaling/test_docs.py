"""The worked examples of docs/scaling.md."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"


def test_every_example_of_the_page_comes_out_as_written() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.failed == 0
    assert results.attempted >= 15

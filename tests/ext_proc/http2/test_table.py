"""The page lists what is tried."""

from __future__ import annotations

from tests.ext_proc.http2.table import PAGE, rows, written


def test_the_page_lists_every_rule() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "run python -m tests.ext_proc.http2.table"


def test_there_are_at_least_90_rules() -> None:
    assert len(set(rows())) >= 90

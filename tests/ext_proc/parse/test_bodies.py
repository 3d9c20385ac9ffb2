"""Every kind of body in the table is read as the table says, or refused as it says."""

from __future__ import annotations

import pytest

from tests.cases.bodies import Case, cases
from tests.ext_proc.parse.reading import DEFAULTS, LIMIT, read, refusal, told

POSTS = [case for case in cases() if case.method == "POST"]


def options(case: Case) -> dict[str, str | None]:
    return {"content_type": case.header("content-type"), "content_encoding": case.header("content-encoding")}


@pytest.mark.parametrize("case", [case for case in POSTS if "status" not in case.expect], ids=lambda case: case.id)
def test_body_is_read(case: Case) -> None:
    assert {**DEFAULTS, **case.expect} == told(read(case.content(LIMIT), case.path, **options(case)))


@pytest.mark.parametrize("case", [case for case in POSTS if "status" in case.expect], ids=lambda case: case.id)
def test_body_is_refused(case: Case) -> None:
    expected = (case.expect["status"], case.expect["reason"])
    assert expected == refusal(case.content(LIMIT), case.path, **options(case))


def test_the_table_has_105_kinds_of_different_names() -> None:
    assert len({case.id for case in cases()}) == 105

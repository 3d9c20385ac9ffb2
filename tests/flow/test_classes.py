"""Class and priority of a request."""

from __future__ import annotations

import pytest

from tidegate.domain.flow.classes import Band, Classes, RequestClass, band, priority_of
from tidegate.domain.matching import Asked
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api, RouteMatch

GOLD = RequestClass("gold", RouteMatch(headers=(("x-tier", "gold"),)), priority=-5, weight=3.0)
BULK = RequestClass("bulk", RouteMatch(api=Api.EMBEDDINGS), priority=5)


def asked(api: Api = Api.CHAT, **headers: str) -> Asked:
    return Asked(RequestInfo(api=api), (), 1, headers.get)


def test_the_first_class_whose_conditions_hold_is_it() -> None:
    classes = Classes((GOLD, BULK))
    assert classes.of(asked(Api.EMBEDDINGS, **{"x-tier": "gold"}), None) is GOLD
    assert classes.of(asked(Api.EMBEDDINGS), None) is BULK
    assert classes.of(asked(), None).name == "default"
    assert classes.names == ("gold", "bulk", "default")


def test_the_file_may_say_what_the_default_class_is() -> None:
    default = RequestClass("default", weight=0.5)
    assert Classes((default, GOLD)).of(asked(), None) is default


def test_a_header_names_the_class_only_where_the_file_allows_it() -> None:
    assert Classes((GOLD,), by_header=True).of(asked(), "gold") is GOLD
    assert Classes((GOLD,), by_header=True).of(asked(), "platinum").name == "default"
    assert Classes((GOLD,)).of(asked(), "gold").name == "default"


@pytest.mark.parametrize(
    ("header", "body", "of_class", "priority"),
    [
        ("-3", 7, 9, -3),
        ("high", 7, 9, -100),
        (" Normal ", 7, 9, 0),
        ("low", 0, 0, 100),
        ("0", 7, 9, 0),
        (None, 7, 9, 7),
        (None, 0, 9, 9),
        ("urgent!", 7, 9, 7),
        ("1.5", 0, 9, 9),
        ("", 0, 0, 0),
        ("9999999999", 0, 0, 2**31 - 1),
        ("99999999999", 4, 0, 4),
        (None, 2**63 - 1, 0, 2**31 - 1),
        ("1,2", 4, 0, 4),
    ],
)
def test_priority_is_the_headers_else_the_bodys_else_the_class(
    header: str | None, body: int, of_class: int, priority: int
) -> None:
    assert priority_of(header, body, of_class) == priority


def test_bands_are_before_at_and_after_0() -> None:
    assert [band(one) for one in (-1, 0, 1)] == [Band.HIGH, Band.NORMAL, Band.LOW]

"""When a rule holds."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.domain.matching import Asked, holds
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api, Media, RouteMatch, parse_token_range

HEADERS = {"x-tier": "free", "x-two": "a,b", "x-empty": ""}


def asked(*, names: tuple[str, ...] = ("phi",), prompt_tokens: int = 100, **info: Any) -> Asked:
    return Asked(RequestInfo(**{"api": Api.CHAT, **info}), names, prompt_tokens, HEADERS.get)


def test_no_condition_always_holds() -> None:
    assert holds(RouteMatch(), asked(names=()))


@pytest.mark.parametrize(
    ("expected", "match"),
    [
        (True, RouteMatch(model="phi")),
        (False, RouteMatch(model="Phi")),
        (True, RouteMatch(headers=(("x-tier", "free"),))),
        (False, RouteMatch(headers=(("x-tier", "Free"),))),
        (False, RouteMatch(headers=(("x-tier", "free"), ("x-none", "1")))),
        (False, RouteMatch(headers=(("x-none", ""),))),
        (True, RouteMatch(headers=(("x-empty", ""), ("x-two", "a,b")))),
        (False, RouteMatch(headers=(("x-two", "a"),))),
        (True, RouteMatch(api=Api.CHAT)),
        (False, RouteMatch(api=Api.MESSAGES)),
        (True, RouteMatch(media=Media.IMAGE)),
        (False, RouteMatch(media=Media.AUDIO)),
        (True, RouteMatch(model="phi", api=Api.CHAT, media=Media.IMAGE)),
        (False, RouteMatch(model="phi", api=Api.CHAT, media=Media.VIDEO)),
    ],
)
def test_each_condition_is_exact_and_all_have_to_hold(expected: bool, match: RouteMatch) -> None:
    assert holds(match, asked(media={Media.IMAGE: 2})) is expected


def test_a_model_condition_knows_the_alias_and_what_it_stands_for() -> None:
    by_alias = asked(names=("gpt", "phi"))
    assert holds(RouteMatch(model="gpt"), by_alias)
    assert holds(RouteMatch(model="phi"), by_alias)
    assert not holds(RouteMatch(model="phi"), asked(names=()))


@pytest.mark.parametrize(
    ("expected", "text"), [(True, ">99"), (False, ">100"), (True, "=100"), (True, "50..100"), (False, "<100")]
)
def test_prompt_tokens_are_compared(expected: bool, text: str) -> None:
    assert holds(RouteMatch(prompt_tokens=parse_token_range(text)), asked(prompt_tokens=100)) is expected


@pytest.mark.parametrize(
    ("limited", "unlimited", "text"),
    [(True, True, ">10"), (True, True, ">=0"), (True, False, "<=64"), (True, False, "=64"), (False, False, "1..63")],
)
def test_without_a_limit_only_what_has_no_upper_end_holds(limited: bool, unlimited: bool, text: str) -> None:
    match = RouteMatch(output_tokens=parse_token_range(text))
    assert holds(match, asked(max_output_tokens=64)) is limited
    assert holds(match, asked()) is unlimited

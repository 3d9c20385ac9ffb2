"""Redis URLs: which are accepted, and that no message repeats a password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.settings.redis_url import parse_redis_url


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("redis://127.0.0.1:6379/0", "127.0.0.1:6379"),
        ("redis://cache", "cache:6379"),
        ("rediss://user:pa%40ss@cache:6380/2", "cache:6380"),
        ("redis://[::1]:7000/0", "[::1]:7000"),
        ("unix:///run/redis.sock?db=1", "/run/redis.sock"),
        ("redis+cluster://a:1,b:2", "a:1,b:2"),
        ("redis+sentinel://:x@a,b:2/fleet/3", "a:26379,b:2"),
    ],
)
def test_each_form_of_url_says_where(url: str, where: str) -> None:
    parsed = parse_redis_url(url)
    assert parsed.where == where
    assert "pa@ss" not in repr(parsed)


def test_a_sentinel_url_names_service_database_and_passwords() -> None:
    parsed = parse_redis_url("redis+sentinel://u:p%2F@a/fleet/3?sentinel_password=q")
    assert (parsed.service, parsed.db, parsed.username, parsed.password) == ("fleet", 3, "u", "p/")
    assert parsed.sentinel_password == "q"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "begin with one of"),
        ("localhost:6379", "begin with one of"),
        ("http://a:hush@b", "begin with one of"),
        ("redis://:hush@", "no host"),
        ("redis://:hush@a:65536", "port"),
        ("redis://:hush@a:70000", "port"),
        ("redis://:hush@a:x", "port"),
        ("redis://:hu/sh@a:1", "port"),
        ("redis://:hush@a:1/zero", "database"),
        ("redis://:hush@[::1", "not a URL"),
        ("redis+sentinel://:hush@a:1", "no service"),
        ("redis+sentinel://:hush@a:1/fleet/x", "database"),
        ("redis+cluster://:hush@a:1/1", "database 0"),
        ("unix://", "no socket"),
    ],
)
def test_a_bad_url_is_said_without_its_password(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        parse_redis_url(url)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None


@given(st.text(max_size=30), st.sampled_from(["redis://", "redis+sentinel://", "unix://", ""]))
def test_any_text_is_a_url_or_a_value_error(text: str, scheme: str) -> None:
    try:
        parse_redis_url(scheme + text)
    except ValueError as exc:
        assert str(exc)  # noqa: PT017

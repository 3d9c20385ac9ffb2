"""Every tunable of the product: its good value is taken, its bad ones are refused with a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.scaling.order import Order
from tidegate.domain.tunable import Tunable, plain
from tidegate.domain.tuning import GROUPS, REGISTRY, check, check_tunes, find, good_tunes, in_force


def good_text(tunable: Tunable) -> str:
    return plain(tunable.default)


def bad_texts(tunable: Tunable) -> Iterator[tuple[str, str]]:
    """Too small, too large and of a wrong type, where the tunable has such."""
    yield "type", "banana"
    yield "empty", ""
    if isinstance(tunable, Order):
        yield "negative", "-1"
        return
    if isinstance(tunable.default, bool | str):
        yield "number", "7"
        return
    yield "nan", "nan"
    yield "infinite", "inf"
    yield "grouped", "1_0"
    yield "exotic digits", "٣"
    if isinstance(tunable.default, int):
        yield "fraction", "1.5"
    yield "small", plain(tunable.least - 1)
    if not math.isinf(tunable.most):
        yield "large", plain(tunable.most + 1)
    yield "huge", "9" * 5000


BAD = [pytest.param(t, text, id=f"{t.name} {kind}") for t in REGISTRY.values() for kind, text in bad_texts(t)]
each_tunable = pytest.mark.parametrize("tunable", [pytest.param(t, id=t.name) for t in REGISTRY.values()])


def test_no_name_is_declared_twice() -> None:
    assert sum(len(group.tunables) for group in GROUPS) == len(REGISTRY)


@each_tunable
def test_the_default_is_a_good_value_and_so_are_both_ends_of_the_range(tunable: Tunable) -> None:
    assert tunable.read(good_text(tunable)) == tunable.default
    if tunable.choices:
        assert [tunable.read(word) for word in tunable.choices] == list(tunable.choices)
    elif not isinstance(tunable.default, bool | str):
        ends = [end for end in (tunable.least, tunable.most) if not math.isinf(end)]
        assert [tunable.read(plain(end)) for end in ends] == ends


@pytest.mark.parametrize(("tunable", "text"), BAD)
def test_a_bad_value_is_refused_with_a_sentence_and_the_last_good_one_stays(tunable: Tunable, text: str) -> None:
    why = check("", tunable.name, text)
    assert why
    assert len(why) < 200
    assert tunable.range in why or all(word in why for word in tunable.choices)
    typed, key, good = {"": {tunable.name: text}}, f"tune {tunable.name}", good_text(tunable)
    assert check_tunes(typed) == {key: f"{why}; what was in force stays"}
    assert check_tunes(typed, {key: good}) == {key: f"{why}; the last good value {good} stays in force"}
    assert good_tunes(typed, {key: good}) == {"": {tunable.name: good}}
    assert good_tunes(typed, {}) == {}


@each_tunable
def test_what_is_global_is_refused_for_one_cluster(tunable: Tunable) -> None:
    why = check("phi-3", tunable.name, good_text(tunable))
    assert (why is None) is tunable.per_cluster
    assert check("", tunable.name, good_text(tunable)) is None


@each_tunable
def test_a_tunable_says_what_it_does_in_one_line_of_a_table(tunable: Tunable) -> None:
    assert tunable.doc
    assert "|" not in tunable.doc + tunable.range
    assert "\n" not in tunable.doc
    assert len(tunable.doc) <= 160


def test_a_slip_of_the_pen_gets_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"did you mean envoy\.retries\?"):
        find("envoy.retires")
    with pytest.raises(ValueError, match="tune list"):
        find("colour")
    assert "did you mean envoy.retries?" in check_tunes({"phi-3": {"envoy.retires": "1"}})["tune:phi-3 envoy.retires"]


def test_the_cluster_s_own_value_wins_over_the_one_for_all() -> None:
    good = {"": {"envoy.retries": "1", "envoy.http": "http2"}, "phi-3": {"envoy.retries": "3"}}
    assert in_force("envoy.retries", "phi-3", good) == ("3", "tune:phi-3")
    assert in_force("envoy.http", "phi-3", good) == ("http2", "tune")
    assert in_force("envoy.eject_ms", "phi-3", good) == (None, "default")


def test_a_key_that_is_no_hash_keeps_all_its_last_good_values() -> None:
    last = {"tune:phi-3 envoy.retries": "3", "tune envoy.retries": "1", "tune:sdxl envoy.retries": "2"}
    assert good_tunes({}, last, ["tune:phi-3", "tune"]) == {"phi-3": {"envoy.retries": "3"}, "": {"envoy.retries": "1"}}


@given(st.dictionaries(st.sampled_from(["", "phi-3"]), st.dictionaries(st.sampled_from([*REGISTRY, "x"]), st.text())))
def test_good_tunes_hold_nothing_that_is_refused(tunes: dict[str, dict[str, str]]) -> None:
    good = good_tunes(tunes, {"tune envoy.retries": "banana"})
    assert check_tunes(good) == {}
    assert all(fields[name] == tunes[scope][name] for scope, fields in good.items() for name in fields)

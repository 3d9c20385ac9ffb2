"""Operators' keys: what is accepted, what is refused and what then stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.operators import Intent, parse_pin, read_orders

MEMBERS = {"phi-3": ["10.0.0.5:8000", "10.0.0.6:8000"]}
HERE = "10.0.0.5:8000"


def orders(weight=None, drain=None, before=Intent(), address=HERE):  # noqa: B008 - frozen
    weights = {"phi-3": {} if weight is None else {address: weight}}
    drains = {"phi-3": {} if drain is None else {address: drain}}
    return read_orders(weights, drains, MEMBERS, before)


@pytest.mark.parametrize(("expected", "text"), [(0, "0"), (1000, "1000"), (7, "7"), (100, "0100")])
def test_whole_numbers_up_to_1000_are_pins(expected, text):
    assert orders(text).pins == {"phi-3": {HERE: expected}}
    assert orders(text).rejected == {}


BAD = [
    "banana",
    "1e3",
    "-1",
    "+1",
    "1001",
    "",
    " 5",
    "5 ",
    "5\n",
    "\uff15",
    "\u0665",
    "9" * 5000,
    "1.0",
    "0x1",
    "None",
    "\x00",
]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_weight_changes_nothing_and_is_explained(text):
    intent = orders(text)
    assert intent.pins == {}
    assert (
        "is not a whole number from 0 to 1000; automatic weight stays in force"
        in intent.rejected[f"weight:phi-3 {HERE}"]
    )


def test_sentence_names_what_was_typed():
    assert orders("banana").rejected == {
        f"weight:phi-3 {HERE}": "'banana' is not a whole number from 0 to 1000; automatic weight stays in force"
    }


def test_huge_text_is_cut_in_the_sentence():
    assert len(orders("9" * 5000).rejected[f"weight:phi-3 {HERE}"]) < 150


def test_last_good_pin_stays_in_force():
    intent = orders("banana", before=orders("300"))
    assert intent.pins == {"phi-3": {HERE: 300}}
    assert "the last good value 300 stays in force" in intent.rejected[f"weight:phi-3 {HERE}"]


def test_deleting_the_field_forgets_the_last_good_pin():
    cleared = orders(None, before=orders("300"))
    assert cleared.pins == {}
    assert orders("banana", before=cleared).pins == {}


@pytest.mark.parametrize("reason", ["", "anything at all", "0"])
def test_drain_takes_any_text(reason):
    assert orders(drain=reason).drains == {"phi-3": {HERE: reason}}


def test_orders_for_an_absent_endpoint_are_kept_and_explained():
    intent = orders("5", "x", address="10.9.9.9:1")
    assert intent.pins == {"phi-3": {"10.9.9.9:1": 5}}
    assert intent.drains == {"phi-3": {"10.9.9.9:1": "x"}}
    assert set(intent.rejected) == {"weight:phi-3 10.9.9.9:1", "drain:phi-3 10.9.9.9:1"}
    assert "takes effect when it registers" in intent.rejected["weight:phi-3 10.9.9.9:1"]


@given(st.text())
def test_any_text_is_a_pin_or_a_value_error(text):
    try:
        pin = parse_pin(text)
    except ValueError:
        pin = None
    assert pin is None or 0 <= pin <= 1000


@given(st.integers(0, 1000))
def test_every_number_in_range_reads_back(number):
    assert parse_pin(str(number)) == number


def test_a_key_of_another_type_is_explained_and_its_last_good_orders_stay():
    before = Intent({"phi-3": {"a:1": 7}}, {"phi-3": {"b:1": "disk"}}, {})
    why = {"weight:phi-3": "is no hash", "drain:phi-3": "is no hash"}
    intent = read_orders({}, {}, {"phi-3": {"a:1", "b:1"}}, before, why)
    assert intent.pins == before.pins
    assert intent.drains == before.drains
    assert intent.rejected == why


def test_of_many_fields_for_absent_endpoints_a_hundred_are_read_and_the_rest_is_told():
    typed = {"phi-3": {**{f"x{n:05}": "1" for n in range(20_000)}, HERE: "7"}}
    for weights, drains, key in ((typed, {}, "weight:phi-3"), ({}, typed, "drain:phi-3")):
        read = read_orders(weights, drains, MEMBERS, Intent())
        assert HERE in {**read.pins, **read.drains}["phi-3"]
        assert len(read.texts()) == 101
        assert "19900 are left unread" in read.rejected[key]
        assert len(read.rejected) == 101

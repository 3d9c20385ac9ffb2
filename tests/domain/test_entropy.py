"""Request classes and how mixed they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.entropy import BUCKETS, FEWEST, class_of, merged, normal_entropy
from tidegate.domain.request import ImageDemand, RequestInfo
from tidegate.domain.routing import Api, Media

counts = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(0, 10_000))


def chat(**fields):
    return RequestInfo(api=Api.CHAT, **fields)


def test_equal_requests_have_one_class():
    assert class_of(chat(model="a", prompt_chars=900)) == class_of(chat(model="b", prompt_chars=900))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(chat(prompt_chars=90_000), id="length"),
        pytest.param(chat(prompt_chars=900, max_output_tokens=5), id="limit"),
        pytest.param(chat(prompt_chars=900, media={Media.IMAGE: 1}), id="media"),
        pytest.param(RequestInfo(api=Api.EMBEDDINGS, prompt_chars=900), id="endpoint"),
        pytest.param(chat(prompt_chars=900, image=ImageDemand(4096, 4096)), id="pixels"),
    ],
)
def test_what_costs_otherwise_is_of_another_class(other):
    assert class_of(other) != class_of(chat(prompt_chars=900))


def test_classes_are_the_same_in_every_process():
    assert class_of(chat(prompt_chars=900, max_output_tokens=64)) == 2


@given(st.integers(0, 2**63), st.none() | st.integers(0, 2**63))
def test_class_is_a_bucket(chars, limit):
    assert 0 <= class_of(chat(prompt_chars=chars, max_output_tokens=limit)) < BUCKETS


@given(counts)
def test_entropy_is_a_ratio_or_unknown(mix):
    entropy = normal_entropy(mix)
    assert (entropy is None) == (sum(mix.values()) < FEWEST)
    assert entropy is None or 0 <= entropy <= 1


@given(st.integers(0, BUCKETS - 1), st.integers(FEWEST, 10**9))
def test_one_class_alone_is_no_mix(bucket, count):
    assert normal_entropy({bucket: count}) == pytest.approx(0.0, abs=1e-9)


@given(st.integers(1, 10_000))
def test_all_classes_alike_are_the_greatest_mix(count):
    assert normal_entropy(dict.fromkeys(range(BUCKETS), count)) == pytest.approx(1.0)


@given(counts, st.permutations(range(BUCKETS)))
def test_only_counts_decide_not_which_class_has_them(mix, order):
    renamed = {order[bucket]: count for bucket, count in mix.items()}
    assert normal_entropy(renamed) == pytest.approx(normal_entropy(mix))


@given(st.integers(FEWEST, 1000), st.integers(2, BUCKETS))
def test_moving_requests_towards_equal_counts_never_lowers_entropy(count, classes):
    skewed = {0: count * classes, **dict.fromkeys(range(1, classes), count)}
    even = dict.fromkeys(range(classes), count)
    assert normal_entropy(even) >= normal_entropy(skewed)


def test_fewer_than_twenty_requests_say_nothing():
    assert normal_entropy({1: 10, 2: 9}) is None
    assert normal_entropy({1: 10, 2: 10, 3: -5}) == pytest.approx(0.2)


def test_counts_of_several_pickers_add_up():
    assert merged([{1: 2, 3: 4}, {}, {1: 1}]) == {1: 3, 3: 4}

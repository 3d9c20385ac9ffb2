"""Any bytes as a body are read or refused; nothing else happens."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ext_proc.parse.body import parse_body
from tests.ext_proc.parts import Answer, Picker, body_message
from tidegate.domain.refusal import Refusal

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("model"), inner),
    max_leaves=4,
)


def mutated(document: bytes, cut: int, insert: bytes) -> bytes:
    return document[: cut % (len(document) + 1)] + insert + document[cut % (len(document) + 1) + 1 :]


@settings(deadline=None)
@given(st.binary())
@example(b'{"model":"\\ud800"}')
@example(b'{"model":"\xff"}')
@example(b"\xef\xbb\xbf{}")
@example(b'{"x":' + b"1" * 10_000 + b"}")
@example(b'{"model":' + b"[" * 100_000)
def test_random_bytes_are_read_or_refused(body: bytes) -> None:
    answer = Answer.read(Picker().session().handle(body_message(body)))
    assert answer.status in {None, 400, 404, 503}


@settings(deadline=None)
@given(st.dictionaries(st.text() | st.just("model"), json_values), st.integers(0, 10_000), st.binary(max_size=3))
def test_damaged_json_is_read_or_refused(document: dict[str, object], cut: int, insert: bytes) -> None:
    with suppress(Refusal):
        parse_body(mutated(json.dumps(document).encode(), cut, insert))


@settings(deadline=None)
@given(st.text().filter(lambda text: not any(0xD800 <= ord(ch) < 0xE000 for ch in text)))
def test_a_model_is_read_as_it_was_written(model: str) -> None:
    assert parse_body(json.dumps({"x": [model], "model": model}).encode()).model == model
    assert parse_body(json.dumps({"model": model}, ensure_ascii=False).encode()).model == model


@pytest.mark.parametrize(
    ("value", "stream"), [(b"true", True), (b"false", False), (b"null", False), (b'"true"', False), (b"1", False)]
)
def test_only_true_asks_for_a_stream(value: bytes, stream: bool) -> None:
    assert parse_body(b'{"stream": ' + value + b"}").stream is stream

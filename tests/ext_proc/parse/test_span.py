"""The model's name is found exactly, and replaced without touching another byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.parse.span import model_span, with_model
from tests.ext_proc.parse.test_multipart import field, file, form

FORM = "multipart/form-data; boundary=B7"


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (b'"m"', b'{"model":"m"}'),
        (b'"m"', b'\xef\xbb\xbf \n{ "model" :\t"m" , "n":1}'),
        (b'"m"', b'{"x":"\\"model\\":\\"m\\"","y":{"model":"m"},"z":["m","m"],"model":"m","w":"m"}'),
        (b'"\\u006d\\""', b'{"mod\\u0065l":"\\u006d\\""}'),
        (b'""', b'{"model":""}'),
        (b'"m"', b'{"\\ud83cmodel":"\\udf0a","model":"m"}'),
        (b'"sd"', b'{"override_settings":{"x":"sd","sd_model_checkpoint":"sd"}}'),
        (b'"m"', b'{"override_settings":{"sd_model_checkpoint":"sd"},"model":"m"}'),
        (b'"m"', b'{"a":"' + b"m" * 100_000 + b'","model":"m","b":"' + b'\\"m\\"' * 1000 + b'"}'),
    ],
    ids=range(9),
)
def test_span_is_the_value_at_the_top(value: bytes, body: bytes) -> None:
    span = model_span(body)
    assert span is not None
    assert value == body[slice(*span)]
    before, after = body[: span[0]], body[span[1] :]
    assert before + b'"other"' + after == with_model(body, "other")


@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"x":{"model":"m"}}', b'{"override_settings":"m"}'])
def test_body_without_a_model_has_no_span(body: bytes) -> None:
    assert model_span(body) is None
    assert with_model(body, "other") is None


def test_a_name_is_escaped_as_json_needs_it() -> None:
    assert with_model(b'{"model":"m"}', 'a"\\\n模') == '{"model":"a\\"\\\\\\n模"}'.encode()


def test_forms_take_the_bare_name() -> None:
    body = form(file("file", "a.wav", b'name="model"'), field("model", "m"), field("prompt", "m"))
    assert with_model(body, "other", FORM) == body.replace(b"\r\n\r\nm\r\n", b"\r\n\r\nother\r\n", 1)
    assert with_model(form(field("prompt", "m")), "other", FORM) is None


json_values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["m", "model", '"m"', '"model":"m"']),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["model", "m", "x"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "modelx", "m"]), json_values), st.integers(0, 4), st.booleans())
def test_only_the_model_changes(others: dict[str, Any], place: int, spaced: bool) -> None:
    keys = list(others)
    keys.insert(place, "model")
    document = {key: "m" if key == "model" else others[key] for key in keys}
    changed = with_model(json.dumps(document, indent=2 if spaced else None).encode(), "other")
    assert changed is not None
    assert json.loads(changed) == {**document, "model": "other"}

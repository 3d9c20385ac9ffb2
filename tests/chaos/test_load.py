"""The load tells a right answer from another request's."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.chaos.load import Load, body


def answer(engine: str, number: int, sent: bytes) -> str:
    return json.dumps({"engine": engine, "id": str(number), "sha256": hashlib.sha256(sent).hexdigest()})


WRONG = {
    "another engine": answer("green", 1, body("red", 1, 10)),
    "another request": answer("red", 2, body("red", 1, 10)),
    "another body": answer("red", 1, body("red", 2, 10)),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_is_wrong_that_tells_of(name: str) -> None:
    load = Load(port=0)
    load._check("red", 1, body("red", 1, 10), WRONG[name])
    assert len(load.wrong) == 1


@pytest.mark.parametrize(("model", "engine"), [("red", "red"), ("rouge", "red")])
def test_an_answer_is_right_that_tells_the_body_with_the_models_own_name(model: str, engine: str) -> None:
    load = Load(port=0)
    load._check(model, 1, body(model, 1, 10), answer(engine, 1, body(engine, 1, 10)))
    assert load.wrong == []

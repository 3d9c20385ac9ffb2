"""Any bytes are read or refused; nothing else happens. The long run is `python -m tests.fuzz.fuzz_parse`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.parse.body import Body, Item
from tests.cases.bodies import cases
from tests.ext_proc.parse.reading import read
from tests.fuzz.costly import costly
from tests.fuzz.fuzz_parse import _timed, corpus, run
from tidegate.domain.refusal import Refusal
from tidegate.domain.request import LARGEST_COUNT, RequestInfo

paths = st.sampled_from(sorted({case.path for case in cases()}))
names = st.sampled_from([*Body.__struct_fields__, *Item.__struct_fields__, "id", "name", "user_id"])
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
requests = st.dictionaries(st.sampled_from(Body.__struct_fields__), json_values, max_size=8)


def test_costly_bodies_are_read_or_refused() -> None:
    outcomes = {type(_timed(request)[0]) for request in costly(1 << 14)}
    assert outcomes == {Refusal, RequestInfo}


def test_mutated_requests_are_read_or_refused() -> None:
    findings = run(4000, seed=20_261_129, timed=False)
    assert findings.failures == []
    assert {"read", "invalid-json", "invalid-request"} <= set(findings.outcomes)


@pytest.mark.parametrize("at", range(len(corpus())))
def test_requests_of_the_corpus_are_read_or_refused(at: int) -> None:
    outcome, _ = _timed(corpus()[at])
    assert outcome is not None


@settings(deadline=None)
@given(
    st.binary(),
    paths,
    st.sampled_from([None, "gzip", "zstd"]),
    st.sampled_from(["multipart/form-data; boundary=a", None]),
)
def test_random_bytes_are_read_or_refused(
    body: bytes, path: str, encoding: str | None, content_type: str | None
) -> None:
    with suppress(Refusal):
        read(body, path, content_encoding=encoding, content_type=content_type)


@settings(deadline=None, max_examples=300)
@given(requests, paths)
def test_known_fields_of_any_type_are_read_or_refused(document: dict[str, Any], path: str) -> None:
    body = json.dumps(document, ensure_ascii=True).encode()
    with suppress(Refusal):
        info = read(body, path)
        assert 1 <= info.num_prompts <= info.num_sequences * LARGEST_COUNT
        assert info.max_output_tokens is None or 0 <= info.max_output_tokens <= LARGEST_COUNT
        assert info.prompt_chars <= len(body)
        assert all(0 <= mark < 1 << 64 for mark in info.prefix)
        assert len(info.prefix_chars) == len(info.prefix)
        assert len(info.prefix_ids) in {0, len(info.prefix)}
        assert list(info.prefix_chars) == sorted(info.prefix_chars)
        assert max(info.prefix_chars, default=0) <= info.prompt_chars + info.tool_bytes
        assert max(info.prefix_ids, default=0) <= (info.prompt_tokens or 0)

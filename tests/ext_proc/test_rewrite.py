"""Only the name changes."""

from __future__ import annotations

import gzip
import json

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.rewrite import under_model
from tidegate.domain.refusal import Reason, Refusal

LIMIT = 1 << 20
names = st.text(min_size=1, max_size=40).filter(str.isprintable)
space = st.text(" \t\r\n", max_size=3)


def rewritten(body: bytes, model: str, content_type: str | None = None, encoding: str | None = None) -> bytes:
    return under_model(body, model, content_type, encoding, LIMIT)


@given(names, names, space, space, st.dictionaries(names, st.text(max_size=30) | st.integers(), max_size=4))
def test_bytes_before_and_behind_the_name_stay(old: str, new: str, left: str, right: str, rest: dict[str, str]) -> None:
    rest.pop("model", None)
    rest.pop("override_settings", None)
    written = json.dumps(old)
    inner = json.dumps(rest, ensure_ascii=False)[1:-1]
    head = ("{" + inner + ("," if inner else "") + left + '"model"' + right + ":" + left).encode()
    tail = (right + ', "z": {"model": ' + written + "}}" + left).encode()
    assert rewritten(head + written.encode() + tail, new) == head + json.dumps(new, ensure_ascii=False).encode() + tail


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", b'{"model":"m"}'),
        (b" {\n} \n", b' {\n"model":"m"} \n'),
        (b'{"a": {}}', b'{"a": {},"model":"m"}'),
        (b'{"a": 1 }', b'{"a": 1 ,"model":"m"}'),
        (b'{"model": null, "a": "}"}\n', b'{"model": null, "a": "}","model":"m"}\n'),
        (b'\xef\xbb\xbf{"a": "{"}', b'\xef\xbb\xbf{"a": "{","model":"m"}'),
    ],
)
def test_a_body_without_a_name_gets_it_last(body: bytes, expected: bytes) -> None:
    assert rewritten(body, "m") == expected
    assert json.loads(expected.decode("utf-8-sig"))["model"] == "m"


def test_quotes_and_backslashes_of_a_name_are_escaped() -> None:
    assert json.loads(rewritten(b'{"model": "a"}', 'é"\\/'))["model"] == 'é"\\/'


@pytest.mark.parametrize("encoding", ["gzip", " GZIP ", "x-gzip", "gzip, identity"])
def test_gzip_stays_gzip(encoding: str) -> None:
    assert gzip.decompress(rewritten(gzip.compress(b'{"model":"a"}'), "b", None, encoding)) == b'{"model":"b"}'


def test_zstd_stays_zstd() -> None:
    assert zstd.decompress(rewritten(zstd.compress(b'{"model":"a"}'), "b", None, "zstd")) == b'{"model":"b"}'


FORM = b'--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--B--\r\n'


def test_a_form_s_field_is_written_as_it_is() -> None:
    assert rewritten(FORM % (b"model", b"a"), 'n"é', "multipart/form-data; boundary=B") == FORM % (
        b"model",
        'n"é'.encode(),
    )


def test_a_form_without_the_field_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        rewritten(FORM % (b"prompt", b"a"), "m", "Multipart/Form-Data; boundary=B")
    assert (refused.value.reason, refused.value.param) == (Reason.INVALID_REQUEST, "model")

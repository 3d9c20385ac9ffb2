"""Bytes that are JSON, almost JSON and not JSON."""

from __future__ import annotations

import json
import sys
import tracemalloc
from typing import Any

import pytest

from ext_proc.parse.allowance import MOST_PARTS, MOST_PROMPTS, MOST_TOOLS
from ext_proc.parse.body import MOST_ELEMENTS
from ext_proc.parse.scalars import LONGEST_NUMBER
from ext_proc.parse.structure import LARGEST_STRUCTURE, MOST_VALUES, fits, outside_strings
from tests.ext_proc.parse.reading import LIMIT, chat, read, refusal
from tidegate.domain.refusal import Refusal
from tidegate.domain.routing import Media

BEGIN = b'{"model":"m","messages":[{"role":"user","content":"x"}]'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n\t ",
        b"\xef\xbb\xbf",
        b"null",
        b"7",
        b"true",
        BEGIN,
        BEGIN + b"}}",
        BEGIN + b"},",
        BEGIN + b"}\0",
        BEGIN + b"}\n" + BEGIN + b"}",
        BEGIN + b",}",
        BEGIN + b',"a":01}',
        BEGIN + b',"a":+1}',
        BEGIN + b',"a":.5}',
        BEGIN + b',"a":-}',
        BEGIN + b',"a":-Infinity}',
        BEGIN + b',"a":nan}',
        BEGIN + b',"a":True}',
        BEGIN + b',"a":undefined}',
        BEGIN + b",a:1}",
        BEGIN + b',"a":"\t"}',
        BEGIN + b',"a":"\\x41"}',
        BEGIN + b',"a":"\\u12"}',
        b"\x0b" + BEGIN + b"}",
        b"\xef\xbb\xbf\xef\xbb\xbf" + BEGIN + b"}",
        (BEGIN + b"}").decode().encode("utf-16"),
        (BEGIN + b"}").decode().encode("utf-16-le"),
        (BEGIN + b"}").decode().encode("utf-32"),
        b"{'model': 'm'}",
        b"model=m&messages=",
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
        b'{"model":"m\xe9","messages":[]}',
        BEGIN + b',"user":"\xe9"}',
        BEGIN + b',"max_tokens":"\\q"}',
    ],
    ids=ascii,
)
def test_broken_json_is_refused(body: bytes) -> None:
    assert refusal(body[:400]) == (400, "invalid-json")


def test_refusal_of_broken_json_tells_the_place_and_no_text_of_the_client() -> None:
    with pytest.raises(Exception, match=r"^The body is not valid JSON: invalid character \(byte 12\)\.$"):
        read(b'{"secret-x":@}')


@pytest.mark.parametrize(
    "body",
    [
        b" \r\n\t" + BEGIN + b"} \r\n\t",
        b"\xef\xbb\xbf" + BEGIN + b"}",
        BEGIN + b',"a":-0,"b":0.0,"c":1E+2,"d":1e400,"e":' + b"9" * 10_000 + b"}",
        BEGIN + b',"\\u0000":"\\u0000","":1}',
    ],
)
def test_unusual_json_is_read(body: bytes) -> None:
    assert read(body).model == "m"


@pytest.mark.parametrize(
    ("text", "chars"),
    [
        (b"\\ud83c\\udf0a", 1),
        (b"\\ud83c", 1),
        (b"\\udf0a", 1),
        (b"\\udf0a\\ud83c", 2),
        (b"\\ud83c\\ud83c\\udf0a", 2),
        (b"\\uD83Cabc", 4),
        (b"\\\\ud83c\\ud83c", 7),
        (b"\\\\\\ud83c", 2),
        (b"\\ud83c" * 5000, 5000),
        (b"\\\\" * 5000 + b"\\ud83c", 5001),
        (b"\\\\" * 8 + b"\\ud83c", 9),
        (b"\\\\" * 5000 + b"\\\\ud83c\\ud83c", 5007),
        (b"a\\u0000b", 3),
    ],
    ids=repr,
)
def test_surrogates_are_characters_paired_or_not(text: bytes, chars: int) -> None:
    assert read(b'{"model":"m","messages":[{"role":"user","content":"' + text + b'"}]}').prompt_chars == chars


def test_unpaired_surrogates_are_read_in_any_string() -> None:
    body = BEGIN + b',"user":"a\\ud83c","lora":"\\udf0a","cache_salt":"\\ud83c\\udf0a"}'
    info = read(body)
    assert (info.user, info.loras, info.affinity.cache_salt) == ("a\ufffd", ("\ufffd",), "🌊")


def test_unpaired_surrogates_do_not_save_other_faults() -> None:
    assert refusal(b'{"model":"m","messages":[],"user":"\\ud83c",}') == (400, "invalid-json")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"content":'], ids=repr)
@pytest.mark.parametrize("field", ["metadata", "messages", "model", "prompt", "tools"])
def test_a_hundred_thousand_levels_are_refused(field: str, opening: bytes) -> None:
    assert refusal(b'{"' + field.encode() + b'":' + opening * 100_000)[0] == 400


@pytest.mark.parametrize("field", ["metadata", "prompt", "tools", "extra_body", "sampling_params", "lora", "user"])
def test_900_levels_are_read(field: str) -> None:
    assert read(BEGIN + b',"' + field.encode() + b'":' + b"[" * 900 + b"]" * 900 + b"}").prompt_chars == 1


def test_deep_content_is_counted_down_to_a_tools_result() -> None:
    part: dict[str, Any] = {"type": "text", "text": "x"}
    for _ in range(100):
        part = {"type": "tool_result", "text": "y", "content": [part]}
    assert 0 < read({"model": "m", "messages": [{"role": "user", "content": [part]}]}).prompt_chars < 10


@pytest.mark.parametrize("field", ["n", "max_tokens", "max_completion_tokens", "priority", "best_of"])
@pytest.mark.parametrize("quote", [b"", b'"'])
def test_number_that_no_engine_reads_is_refused(field: str, quote: bytes) -> None:
    number = quote + b"9" * (LONGEST_NUMBER + 1) + quote
    assert refusal(BEGIN + b',"' + field.encode() + b'":' + number + b"}") == (400, "invalid-request")


def test_longest_number_is_read() -> None:
    assert sys.int_info.default_max_str_digits == LONGEST_NUMBER
    assert refusal(BEGIN + b',"n":' + b"9" * LONGEST_NUMBER + b"}") == (0, "")


@pytest.mark.parametrize("value", ["1e400", "9" * 10_000], ids=["float", "integer"])
def test_number_out_of_range_in_a_prompt_is_refused(value: str) -> None:
    assert refusal(b'{"model":"m","prompt":[' + value.encode() + b"]}", "/v1/completions") == (400, "invalid-request")


def test_200_000_keys_are_stepped_over() -> None:
    keys = ",".join(f'"k{n}":{n}' for n in range(200_000))
    assert read(BEGIN + b"," + keys.encode() + b"}").prompt_chars == 1


@pytest.mark.parametrize("element", ["{}", "[]", '{"a":[]}'])
@pytest.mark.parametrize("field", ["messages", "prompt", "model", "tools"])
def test_more_structure_than_memory_is_given_for_is_refused(field: str, element: str) -> None:
    elements = ",".join([element] * (LARGEST_STRUCTURE + 1))
    assert refusal(f'{{"{field}":[{elements}]}}'.encode()) == (400, "invalid-request")


def test_brackets_in_a_text_are_no_structure() -> None:
    text = '[{"' * LARGEST_STRUCTURE
    assert read(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    ).prompt_chars == len(text)


@pytest.mark.parametrize(
    "strings",
    [('"{[",' * 3)[:-1], '"\\\\","[{\\"[","\\\\\\"["', '"","[",""', '"a[\\\\"'],
)
def test_brackets_are_told_apart_by_quotes_and_escapes(strings: str) -> None:
    lists = LARGEST_STRUCTURE // 2
    text = ",".join([f"[{strings}]"] * lists)
    commas = len(json.loads(f"[{strings}]")) * lists - 1
    assert (lists, commas) == outside_strings(text.encode())
    assert fits(text.encode())
    assert not fits(f"{text},{text},[]".encode())


def test_quotes_meet_at_any_place_of_a_long_text() -> None:
    text = b'["a{[,\\\\"],{"b":"\\"["},"",[["]"' * 20_000
    assert outside_strings(text + b"]") == (4 * 20_000, 3 * 20_000)


def test_structure_that_nobody_reads_is_stepped_over() -> None:
    many = b'{"a":[1e300]},' * (LARGEST_STRUCTURE + 1)
    info = read(BEGIN + b',"metadata":[' + many + b"{}]}")
    assert (info.model, info.prompt_chars) == ("m", 1)


def test_more_values_than_memory_is_given_for_are_refused() -> None:
    many = b'"ab",' * MOST_VALUES
    assert refusal(b'{"model":"m","prompt":[' + many + b'""]}', "/v1/completions") == (400, "invalid-request")
    assert refusal(b'{"model":[' + many + b'""],"prompt":"x"}', "/v1/completions") == (400, "invalid-request")
    assert read(BEGIN + b',"metadata":[' + many + b'""]}').model == "m"


def test_far_too_many_values_take_no_memory() -> None:
    body = b'{"model":"m","prompt":[' + b'"ab",' * MOST_VALUES + b'""]}'
    tracemalloc.start()
    try:
        assert refusal(body, "/v1/completions") == (400, "invalid-request")
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", ["1e300", "0.5", "1.797e308", "12345678901234567e9"])
@pytest.mark.parametrize("field", ["prompt", "input", "text", "documents", "tokens"])
def test_floats_are_no_prompt_and_are_not_converted(field: str, number: str) -> None:
    body = f'{{"model":"m","{field}":["ab",{number},{{"text":{number}}},{{"text":"c"}}]}}'
    path = {"documents": "/v1/rerank"}.get(field, "/v1/embeddings")
    assert read(body.encode(), path).prompt_chars == 3
    assert read(f'{{"model":"m","{field}":{number}}}'.encode(), path).prompt_chars == 0


def test_messages_beside_a_float_are_read() -> None:
    messages = b'[0.5,{"role":"user","content":"a"},{"content":[1e300]},{"role":"user","content":["b",7]}]'
    assert read(b'{"model":"m","messages":' + messages + b"}").prompt_chars == 2


@pytest.mark.parametrize("model", [b"1e300", b"[1e300]", b'{"a":0.5}'])
def test_float_as_model_is_refused(model: bytes) -> None:
    assert refusal(b'{"messages":[],"model":' + model + b"}") == (400, "invalid-request")
    assert refusal(b'{"messages":[0.5],"model":' + model + b"}") == (400, "invalid-request")
    assert refusal(b'{"messages":[0.5],"model":"m","model":"n"}') == (400, "invalid-request")


def test_more_parts_than_an_engine_takes_are_refused() -> None:
    assert chat(messages=[{"role": "user", "content": "x"}] * MOST_PARTS).prompt_chars == MOST_PARTS
    assert refusal({"model": "m", "messages": [{}] * (MOST_PARTS + 1)}) == (400, "invalid-request")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": ["x"] * 100_000}),
        ("/v1/embeddings", {"input": [[1]] * 100_000}),
        ("/v1/rerank", {"query": "q", "documents": ["x"] * 100_000}),
        ("/v1/rerank", {"query": "q", "documents": [{"text": "x"}] * 100_000}),
    ],
    ids=["texts", "ids", "documents", "objects"],
)
def test_100_000_prompts_are_read(path: str, body: dict[str, Any]) -> None:
    assert read({"model": "m", **body}, path).num_prompts == 100_000


def test_20_000_tools_are_read() -> None:
    tool = {"name": "f", "input_schema": {}}
    assert chat(tools=[tool] * (MOST_TOOLS - 1)).tools == MOST_TOOLS - 1
    assert refusal({"model": "m", "messages": [], "tools": [tool] * (MOST_TOOLS + 1)}) == (400, "invalid-request")
    assert chat(tools=[1] * (MOST_TOOLS + 2)).tools == 0


def test_limits_that_share_an_allowance_are_told_together() -> None:
    with pytest.raises(Refusal, match=f"{MOST_PARTS} .* {MOST_PROMPTS} .* {MOST_TOOLS}"):
        read({"model": "m", "prompt": ["x"] * (MOST_PROMPTS + 1)}, "/v1/completions")


def test_a_data_url_with_commas_is_one_picture() -> None:
    url = "data:image/svg+xml," + "1,2 " * 10_000
    assert chat(images=[url]).media == {Media.IMAGE: 1}
    assert refusal(BEGIN + b',"images":[' + b"1," * MOST_ELEMENTS + b"1]}") == (400, "invalid-request")


def test_a_body_above_the_limit_is_refused_by_its_size_alone() -> None:
    assert refusal(b" " * (LIMIT + 1)) == (413, "body-too-large")
    assert read(BEGIN + b"}" + b" " * (LIMIT - len(BEGIN) - 1)).model == "m"


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "APPLICATION/JSON;charset=utf-8", "application/x-www-form-urlencoded", ";;="],
)
def test_any_content_type_but_a_form_is_json(content_type: str | None) -> None:
    assert read(BEGIN + b"}", content_type=content_type).model == "m"

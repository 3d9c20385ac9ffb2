"""Fields of JSON bodies as lenient clients write them."""

from __future__ import annotations

from typing import Any

import pytest

from ext_proc.parse.info import LONGEST_MODEL
from tests.ext_proc.parse.reading import chat, read, refusal
from tidegate.domain.request import LARGEST_COUNT
from tidegate.domain.routing import Media

BEGIN = b'{"model":"m","messages":[]'


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        (16, "16"),
        (16, " 16 "),
        (16, 16.0),
        (100_000, 1e5),
        (0, 0),
        (LARGEST_COUNT, 10**30),
        (LARGEST_COUNT, 1e300),
        (None, 16.5),
        (1, True),
        (0, False),
        (None, "true"),
        (None, "many"),
        (None, ""),
        (None, "0x10"),
        (None, "١٢"),
        (None, "1_000"),
        (None, -1),
        (None, "-1"),
        (None, [16]),
        (None, {"tokens": 16}),
    ],
    ids=str,
)
def test_limit_is_a_whole_number_in_any_writing(limit: int | None, value: Any) -> None:
    assert limit == chat(max_tokens=value).max_output_tokens


@pytest.mark.parametrize(
    ("limit", "fields"),
    [
        (5, {"max_completion_tokens": None, "max_tokens": 5}),
        (None, {"max_completion_tokens": "what", "max_tokens": 5}),
        (7, {"max_completion_tokens": 7}),
        (None, {"max_output_tokens": 7}),
        (None, {}),
    ],
    ids=str,
)
def test_first_limit_that_is_not_null_decides_a_chat(limit: int | None, fields: dict[str, Any]) -> None:
    assert limit == chat(**fields).max_output_tokens


@pytest.mark.parametrize(
    ("limit", "path", "body"),
    [
        (16, "/v1/completions", {"prompt": "x", "max_completion_tokens": 9}),
        (None, "/v1/completions", {"prompt": "x", "max_tokens": -3}),
        (9, "/v1/responses", {"input": "x", "max_output_tokens": 9, "max_tokens": 1}),
        (8, "/v1/messages", {"messages": [], "max_tokens": 8, "max_completion_tokens": 1}),
        (0, "/v1/messages/count_tokens", {"messages": [], "max_tokens": 8}),
        (33, "/generate", {"text": "x", "sampling_params": {"max_new_tokens": 33}}),
        (34, "/generate", {"text": ["x"], "sampling_params": [{"max_new_tokens": 34}]}),
        (128, "/generate", {"text": "x"}),
        (35, "/generate", {"prompt": "x", "max_tokens": 35}),
        (16, "/inference/v1/generate", {"token_ids": [1], "sampling_params": {}}),
        (16, "/inference/v1/generate", {"token_ids": [1]}),
        (None, "/inference/v1/generate", {"token_ids": [1], "sampling_params": {"max_tokens": None}}),
        (128, "/generate", {"input_embeds": [[0.5, 1e-7]]}),
        (36, "/generate", {"inputs": "x", "parameters": {"max_new_tokens": 36}}),
        (None, "/generate", {"inputs": "x", "parameters": {}}),
        (None, "/generate", {"prompt": "x", "sampling_params": "none"}),
        (6, "/v1/unknown", {"prompt": "x", "max_tokens": 6}),
    ],
    ids=str,
)
def test_each_endpoint_has_its_own_limit(limit: int | None, path: str, body: dict[str, Any]) -> None:
    assert limit == read({"model": "m", **body}, path).max_output_tokens


@pytest.mark.parametrize(
    ("sequences", "fields"),
    [
        (8, {"n": "8"}),
        (8, {"n": 8.0}),
        (1, {"n": 0}),
        (1, {"n": -2}),
        (1, {"n": None}),
        (1, {"n": 2.5}),
        (1, {"n": True}),
        (1, {"n": []}),
        (5, {"n": 2, "best_of": 5}),
        (4, {"n": 4, "use_beam_search": True}),
        (6, {"beam_width": 6, "use_beam_search": True}),
        (LARGEST_COUNT, {"n": 10**40}),
    ],
    ids=str,
)
def test_samples_and_beams_are_sequences(sequences: int, fields: dict[str, Any]) -> None:
    assert sequences == chat(**fields).num_sequences


def test_each_prompt_is_sampled_n_times() -> None:
    info = read({"model": "m", "prompt": ["a", "b", "c"], "n": 2, "best_of": 4}, "/v1/completions")
    assert (info.num_prompts, info.num_sequences) == (3, 12)


def test_the_product_of_prompts_and_samples_is_bounded() -> None:
    assert read({"model": "m", "prompt": ["a", "b"], "n": 10**18 * 9}, "/v1/completions").num_sequences == LARGEST_COUNT


@pytest.mark.parametrize(
    ("expected", "prompt"),
    [
        ((1, 0, None), None),
        ((1, 0, None), []),
        ((1, 0, None), ""),
        ((1, 0, None), {}),
        ((1, 0, None), 7),
        ((1, 2, None), {"text": "ab"}),
        ((2, 0, 2), [[1], [2]]),
        ((1, 0, 0), [[]]),
        ((2, 3, 2), [[1, 2], "abc"]),
        ((2, 1, None), [["a"], []]),
        ((1, 1, None), ["a", 1, 2.5, None, True]),
        ((1, 0, 2), [10**30, 2]),
        ((1, 0, 2), [-1, 2]),
        ((1, 0, None), [[[1, 2]]]),
    ],
    ids=str,
)
def test_prompts_are_texts_ids_or_lists_of_both(expected: tuple[int, int, int | None], prompt: Any) -> None:
    info = read({"model": "m", "prompt": prompt}, "/v1/completions")
    prompts, chars, ids = expected
    assert (prompts, chars) == (info.num_prompts, info.prompt_chars)
    assert (ids or 0) == (info.prompt_tokens or 0)


@pytest.mark.parametrize("value", [True, 1, 1.0, "true", "True", "1", "yes", "on"], ids=repr)
def test_stream_is_true_in_any_writing(value: Any) -> None:
    assert chat(stream=value).stream


@pytest.mark.parametrize("value", [False, None, 0, 2, "false", "no", "", "truely so", [], {}, [True]], ids=repr)
def test_anything_else_asks_for_no_stream(value: Any) -> None:
    assert not chat(stream=value).stream


@pytest.mark.parametrize(
    "model", ["/srv/models/m", "模型/🌊", "a b", "m:7b@fp8", "ü" * LONGEST_MODEL, "%2F", '"'], ids=ascii
)
def test_model_is_read_as_written(model: str) -> None:
    assert model == read({"messages": [], "model": model}).model


@pytest.mark.parametrize("model", [None, ""])
def test_an_empty_model_is_none(model: str | None) -> None:
    assert read({"messages": [], "model": model}).model is None


@pytest.mark.parametrize("model", [7, 1.5, True, False, [], ["m"], {}, {"model": "m"}], ids=repr)
def test_model_of_another_type_is_refused(model: Any) -> None:
    assert refusal({"messages": [], "model": model}) == (400, "invalid-request")


@pytest.mark.parametrize("char", ["\0", "\t", "\n", "\r", "\x1f", "\x7f", "\x85", "\u2028"], ids=ascii)
def test_model_with_a_control_character_is_refused(char: str) -> None:
    assert refusal({"messages": [], "model": f"m{char}"}) == (400, "invalid-request")


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","messages":[],"model":"a"}',
        b'{"model":"a","model":null,"messages":[]}',
        b'{"messages":[],"model":null,"\\u006d\\u006f\\u0064\\u0065\\u006c":"b"}',
        b'{"model":"a","messages":[],"mod\\u0065l":{"x":1}}',
    ],
)
def test_model_twice_is_refused_wherever_it_stands(body: bytes) -> None:
    assert refusal(body) == (400, "invalid-request")


def test_other_keys_may_stand_twice_and_the_last_counts() -> None:
    assert read(BEGIN + b',"n":2,"n":3,"x":{"model":"a","model":"b"}}').num_sequences == 3


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("messages", [None, "hi", 7, {}, {"role": "user", "content": "x"}, True], ids=repr)
def test_messages_that_are_no_list_are_refused(path: str, messages: Any) -> None:
    assert refusal({"model": "m", "messages": messages}, path) == (400, "invalid-request")


@pytest.mark.parametrize(
    ("chars", "content"),
    [
        (0, None),
        (0, 7),
        (0, True),
        (0, []),
        (2, {"type": "text", "text": "ab"}),
        (2, ["a", None, 7, "b"]),
        (2, [{"text": "ab"}]),
        (1, [{"type": "text", "text": "a"}, {"type": "text", "text": None}, {"type": "text"}]),
        (3, [{"type": "tool_result", "content": "abc"}]),
        (2, [{"type": "tool_result", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
        (0, [{"type": ["text"], "text": {"type": "text"}}]),
        (0, [[{"type": "text", "text": "too deep"}]]),
    ],
    ids=str,
)
def test_text_of_a_message_is_counted_in_any_shape(chars: int, content: Any) -> None:
    assert chars == read({"model": "m", "messages": [{"role": "user", "content": content}]}).prompt_chars


@pytest.mark.parametrize(
    ("chars", "message"),
    [
        (4, {"content": "a", "reasoning_content": "bcd"}),
        (4, {"content": "a", "reasoning": "bcd"}),
        (3, {"content": None, "reasoning": "x", "reasoning_content": "bcd"}),
        (4, {"content": [{"type": "thinking", "thinking": "bcd", "signature": "s"}, {"type": "text", "text": "a"}]}),
        (0, {"content": [{"type": "redacted_thinking", "data": "bcd"}]}),
        (3, {"content": [{"type": "refusal", "refusal": "bcd"}]}),
        (3, {"content": [{"type": "document", "source": {"type": "text", "data": "bcd"}}]}),
        (3, {"content": [{"type": "document", "source": {"type": "content", "content": "bcd"}}]}),
        (1, {"content": [{"type": "document", "source": {"type": "content", "content": [{"text": "b"}]}}]}),
        (0, {"content": [{"type": "document", "source": {"type": "base64", "data": "bcd"}}]}),
        (0, {"content": [{"type": "document", "source": {"type": "text", "data": 0.5}}]}),
        (0, {"content": [{"type": "document", "source": "bcd"}]}),
    ],
    ids=str,
)
def test_thoughts_refusals_and_documents_are_text(chars: int, message: dict[str, Any]) -> None:
    assert chars == chat(messages=[{"role": "assistant", **message}]).prompt_chars


@pytest.mark.parametrize(
    ("expected", "path", "body"),
    [
        ((1, 2, None), "/generate", {"inputs": "ab", "parameters": {}}),
        ((2, 3, None), "/embed", {"inputs": ["ab", "c"]}),
        ((1, 2, None), "/v2/embed", {"inputs": [{"content": [{"type": "text", "text": "ab"}]}]}),
        ((2, 3, None), "/v2/embed", {"texts": ["ab", "c"]}),
        ((1, 0, 3), "/v1/completions", {"prompt_token_ids": [1, 2, 3]}),
        ((1, 0, 3), "/v1/completions", {"prompt": {"prompt_token_ids": [1, 2, 3]}}),
        ((2, 0, 5), "/v1/completions", {"prompt": [{"prompt_token_ids": [1, 2, 3]}, {"prompt_token_ids": [1, 2]}]}),
        ((1, 0, None), "/generate", {"input_embeds": [[0.5] * 4] * 3}),
        ((2, 0, None), "/generate", {"input_embeds": [[[0.5] * 4] * 3] * 2}),
    ],
    ids=str,
)
def test_prompts_of_other_servers_are_read(
    expected: tuple[int, int, int | None], path: str, body: dict[str, Any]
) -> None:
    info = read({"model": "m", **body}, path)
    assert expected == (info.num_prompts, info.prompt_chars, info.prompt_tokens)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_system_texts_are_counted(path: str) -> None:
    system = [{"type": "text", "text": "abc"}, {"type": "text", "text": "d"}, "e", 7]
    assert read({"model": "m", "system": system, "messages": []}, path).prompt_chars == 5


@pytest.mark.parametrize(
    ("media", "part"),
    [
        ({Media.IMAGE: 1}, {"type": "image", "source": {"type": "base64", "data": "QUJD"}}),
        ({Media.IMAGE: 1}, {"type": "input_image", "image_url": "https://x.test/a.png"}),
        ({Media.IMAGE: 1}, {"image_url": "https://x.test/a.png"}),
        ({Media.IMAGE: 1}, {"type": "tool_result", "content": [{"type": "image", "source": {}}]}),
        ({Media.AUDIO: 1}, {"type": "audio_url", "audio_url": {"url": "https://x.test/a.wav"}}),
        ({Media.AUDIO: 1}, {"type": "input_audio", "input_audio": {"data": ""}}),
        ({Media.VIDEO: 1}, {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}}),
        ({}, {"type": "document", "source": {"type": "url"}}),
        ({}, {"type": "hologram", "image_url": "x"}),
    ],
    ids=str,
)
def test_media_parts_are_counted_by_kind(media: dict[Media, int], part: dict[str, Any]) -> None:
    assert (
        media
        == read({"model": "m", "messages": [{"role": "user", "content": [part, part["type"] if 0 else "t"]}]}).media
    )


def test_responses_items_are_counted() -> None:
    items = [
        {"role": "user", "content": "abc"},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "de"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "f"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "x"}, {"type": "input_text", "text": "g"}]},
        "h",
        None,
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "ij"}], "encrypted_content": "zz"},
    ]
    info = read({"model": "m", "input": items, "tools": [{"type": "function", "name": "f"}]}, "/v1/responses")
    assert (info.prompt_chars, info.tools, info.media) == (9, 1, {Media.IMAGE: 1})
    assert info.tool_bytes == len('{"type": "function", "name": "f"}') + len('"{}"')


@pytest.mark.parametrize(("chars", "value"), [(0, None), (0, 5), (0, {}), (2, {"content": "ab"})], ids=str)
def test_responses_input_of_another_type_is_passed_on(chars: int, value: Any) -> None:
    assert chars <= read({"model": "m", "input": value}, "/v1/responses").prompt_chars + chars


@pytest.mark.parametrize(
    ("pairs", "chars", "path", "body"),
    [
        (3, 5, "/v1/rerank", {"query": "qq", "documents": ["a", {"text": "b"}, "c"]}),
        (1, 2, "/rerank", {"query": "q", "documents": "d"}),
        (2, 4, "/score", {"queries": ["a", "b"], "documents": ["c", "d"]}),
        (2, 3, "/v1/score", {"data_1": "a", "data_2": ["c", "d"]}),
        (1, 0, "/v1/score", {}),
        (
            1,
            1,
            "/v2/rerank",
            {"query": {"content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "documents": ["d"]},
        ),
    ],
    ids=str,
)
def test_pairs_are_the_longer_side(pairs: int, chars: int, path: str, body: dict[str, Any]) -> None:
    info = read({"model": "m", **body}, path)
    assert (pairs, pairs, chars, 0) == (info.num_prompts, info.num_sequences, info.prompt_chars, info.max_output_tokens)


@pytest.mark.parametrize(
    ("expected", "fields"),
    [
        ((512, 768, None, 1), {"size": "512x768"}),
        ((512, 768, None, 1), {"size": " 512 × 768 "}),
        ((None, None, None, 1), {"size": "auto"}),
        ((None, None, None, 1), {"size": "512x"}),
        ((None, None, None, 1), {"size": 512}),
        ((640, 768, None, 1), {"size": "512x768", "width": 640}),
        ((None, None, 30, 4), {"num_inference_steps": "30", "n": 4}),
        ((None, None, 9, 6), {"steps": 9, "n": 2, "num_outputs_per_prompt": 3}),
        ((64, 64, 8, 1), {"extra_body": {"size": "64x64", "num_inference_steps": 8}}),
        ((32, 64, None, 1), {"width": 32, "extra_body": {"size": "64x64"}}),
        ((None, None, None, 1), {"n": 0, "extra_body": "none"}),
    ],
    ids=str,
)
def test_image_demand_is_read(expected: tuple[Any, ...], fields: dict[str, Any]) -> None:
    image = read({"model": "m", "prompt": "x", **fields}, "/v1/images/generations").image
    assert image is not None
    assert expected == (image.width, image.height, image.steps, image.images)


@pytest.mark.parametrize(
    ("loras", "fields"),
    [
        (("a",), {"lora": {"name": "a"}}),
        (("a", "b"), {"lora": [{"name": "a"}, {"lora_name": "b"}]}),
        (("a",), {"lora": "a"}),
        (("/l/a",), {"lora": {"path": "/l/a"}}),
        (("a", "b"), {"lora_path": ["a", "b", None]}),
        (("a",), {"lora_request": {"lora_name": "a", "lora_int_id": 1}}),
        (("a",), {"extra_body": {"lora": {"name": "a"}}}),
        ((), {"lora": 7}),
        ((), {"lora": None}),
        ((), {"lora": {}}),
    ],
    ids=str,
)
def test_loras_are_named_in_many_ways(loras: tuple[str, ...], fields: dict[str, Any]) -> None:
    assert loras == chat(**fields).loras


def test_a_web_ui_names_loras_in_the_prompt() -> None:
    body = {"prompt": "a mug <lora:style-a:0.8>, <lora:b:1> and <lora:", "init_images": ["QUJD", "QUJD"]}
    info = read(body, "/sdapi/v1/img2img")
    assert (info.loras, info.media) == (("style-a", "b"), {Media.IMAGE: 2})


@pytest.mark.parametrize(
    ("user", "fields"),
    [
        ("u", {"user": "u", "metadata": {"user_id": "v"}}),
        ("v", {"metadata": {"user_id": "v"}}),
        ("w", {"safety_identifier": "w"}),
        (None, {"user": 7, "metadata": "v"}),
        (None, {"user": "", "metadata": {"user_id": ["v"]}}),
    ],
    ids=str,
)
def test_user_is_named_in_many_ways(user: str | None, fields: dict[str, Any]) -> None:
    assert user == chat(**fields).user


def test_an_sglang_session_is_a_session() -> None:
    assert read({"text": "x", "session_params": {"id": "s"}}, "/generate").affinity.session_id == "s"


@pytest.mark.parametrize(("priority", "value"), [(-3, "-3"), (4, 4.0), (0, None), (0, "high"), (0, [1])], ids=repr)
def test_priority_may_be_negative(priority: int, value: Any) -> None:
    assert priority == chat(priority=value).priority

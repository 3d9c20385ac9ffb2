"""Where each mark of a prompt's fingerprint stands, in the characters and ids by which its tokens are estimated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ext_proc.parse.reading import chat, read

KI = 1024
TOOL = {"type": "function", "function": {"name": "f"}}
TOOL_BYTES = len(json.dumps(TOOL))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_mark_stands_where_its_message_ends() -> None:
    info = chat(messages=[user("four"), {"role": "assistant", "content": "seven"}, user("潮")])
    assert info.prefix_chars == (0, 4, 9, 10)
    assert info.prefix_ids == ()


def test_system_text_stands_before_tools_and_tools_before_messages() -> None:
    info = chat(messages=[{"role": "system", "content": "sys"}, user("four")], tools=[TOOL, TOOL])
    assert info.prefix_chars == (3, 3 + TOOL_BYTES, 3 + 2 * TOOL_BYTES, 7 + 2 * TOOL_BYTES)
    assert info.prefix_chars[-1] == info.prompt_chars + info.tool_bytes


@pytest.mark.parametrize("char", ["a", "é", "潮", "🌊"])
@pytest.mark.parametrize("blocks", [3, 100], ids=["short", "long"])
def test_a_mark_inside_a_text_stands_at_its_block(char: str, blocks: int) -> None:
    info = chat(messages=[user("12345"), user(char * blocks * KI)])
    assert info.prefix_chars[:4] == (0, 5, 5 + KI, 5 + 2 * KI)
    assert info.prefix_chars[-1] == 5 + blocks * KI == info.prompt_chars
    assert list(info.prefix_chars) == sorted(set(info.prefix_chars))


def test_an_attribution_line_is_in_front_of_the_head() -> None:
    line = "x-anthropic-billing-header: cch=1;\n"
    info = read({"model": "m", "system": f"{line}sys", "messages": [user("a")]}, "/v1/messages")
    assert info.prefix_chars == (len(line) + 3, len(line) + 4)


def test_a_picture_takes_no_characters() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:," + "x" * 999}}
    assert chat(messages=[user([{"type": "text", "text": "abc"}, picture]), user("d")]).prefix_chars == (0, 3, 4)


def test_calls_and_marked_tools_count_as_sent() -> None:
    marked = {**TOOL, "cache_control": {"type": "ephemeral"}}
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    info = chat(messages=[{"role": "assistant", "content": "a", "tool_calls": calls}], tools=[marked])
    tool, all_of_it = len(json.dumps(marked)), info.prompt_chars + info.tool_bytes
    assert info.prefix_chars == (0, tool, all_of_it)


def test_marks_of_token_ids_are_counted_in_ids() -> None:
    info = read({"model": "m", "prompt": list(range(5000))}, "/v1/completions")
    assert info.prefix_ids[0] == KI // 8
    assert info.prefix_ids[-1] == info.prompt_tokens == 5000
    assert set(info.prefix_chars) == {0}


def test_places_belong_to_the_first_prompt_of_many() -> None:
    assert read({"model": "m", "prompt": ["abc", "defgh"]}, "/v1/completions").prefix_chars == (3,)
    batch = chat(messages=[[user("ab")], [user("cdef")]])
    assert batch.prefix_chars == (0, 2)
    assert read({"model": "m", "prompt": [[1, 2, 3], [4]]}, "/v1/completions").prefix_ids == (3,)


def test_nothing_is_placed_where_nothing_is_marked() -> None:
    info = read({"model": "m", "input": "a"}, "/v1/embeddings")
    assert (info.prefix, info.prefix_chars, info.prefix_ids) == ((), (), ())

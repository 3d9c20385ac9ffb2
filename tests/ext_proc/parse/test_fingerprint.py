"""Requests share marks exactly as far as they share a prompt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.ext_proc.parse.reading import chat, read
from tidegate.domain.request import RequestInfo

KI = 1024
TOOLS = [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch={};"


def shared(left: RequestInfo, right: RequestInfo) -> int:
    """How many marks two requests have in common at their heads."""
    pairs = zip(left.prefix, right.prefix, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left.prefix), len(right.prefix)))


def talk(*texts: str, **fields: Any) -> RequestInfo:
    roles = ("user", "assistant")
    return chat(messages=[{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)], **fields)


def anthropic(system: Any, *messages: dict[str, Any], **fields: Any) -> RequestInfo:
    return read({"model": "m", "system": system, "messages": list(messages), **fields}, "/v1/messages")


def test_a_mark_for_the_head_and_each_message() -> None:
    assert len(talk("a", "b", "c").prefix) == 4
    assert len(talk("a", tools=TOOLS).prefix) == 1 + 2 + 1


def test_a_longer_conversation_begins_with_the_shorter_one() -> None:
    assert talk("a", "b", "c", "d").prefix[:4] == talk("a", "b", "c").prefix


def test_messages_after_a_difference_share_nothing() -> None:
    assert shared(talk("a", "b", "c"), talk("a", "B", "c")) == 2


def test_role_counts() -> None:
    left = chat(messages=[{"role": "user", "content": "a"}])
    right = chat(messages=[{"role": "assistant", "content": "a"}])
    assert shared(left, right) == 1


@pytest.mark.parametrize("fields", [{"model": "n"}, {"cache_salt": "s"}, {"lora": "l"}], ids=str)
def test_model_salt_and_adapter_part_everything(fields: dict[str, Any]) -> None:
    assert shared(talk("a"), talk("a", **fields)) == 0


@pytest.mark.parametrize(
    "fields", [{"user": "u"}, {"max_tokens": 5}, {"n": 3}, {"stream": True}, {"metadata": {"a": 1}}], ids=str
)
def test_other_fields_part_nothing(fields: dict[str, Any]) -> None:
    assert talk("a").prefix == talk("a", **fields).prefix


def test_parts_and_a_string_of_the_same_text_are_alike() -> None:
    parts = chat(
        messages=[{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]}]
    )
    assert talk("a").prefix == parts.prefix


def test_both_apis_of_one_conversation_are_alike() -> None:
    message = {"role": "user", "content": "a"}
    openai = chat(messages=[{"role": "system", "content": "s"}, message])
    assert openai.prefix == anthropic("s", message).prefix == anthropic([{"type": "text", "text": "s"}], message).prefix
    responses = read({"model": "m", "instructions": "s", "input": [message]}, "/v1/responses")
    assert responses.prefix == openai.prefix


def test_tools_stand_between_system_and_messages() -> None:
    system = {"role": "system", "content": "s"}
    with_tools, without = (
        chat(messages=[system, {"role": "user", "content": "a"}], tools=TOOLS),
        chat(messages=[system]),
    )
    assert shared(with_tools, without) == 1
    assert shared(with_tools, chat(messages=[system], tools=TOOLS)) == 3


def test_cache_control_moves_over_tools_unseen() -> None:
    marked = [{**TOOLS[0], "cache_control": {"type": "ephemeral"}}, TOOLS[1]]
    moved = [TOOLS[0], {**TOOLS[1], "cache_control": {"type": "ephemeral"}}]
    assert shared(talk("a", tools=marked), talk("a", tools=[*marked[:1], *moved[1:]])) == 2
    assert anthropic("s", tools=marked).prefix[1] == anthropic("s", tools=marked[:1]).prefix[1]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([{"type": "text", "text": BILLING.format("a")}, "s"], [{"type": "text", "text": BILLING.format("b")}, "s"]),
        ([{"type": "text", "text": BILLING.format("a")}, "s"], "s"),
        (BILLING.format("a") + "\n\ns", BILLING.format("b") + "\ns"),
        ("X-Attribution: one\ns", "s"),
    ],
    ids=["blocks", "none", "lines", "other-name"],
)
def test_attribution_line_hides_nothing(left: Any, right: Any) -> None:
    message = {"role": "user", "content": "a"}
    assert anthropic(left, message).prefix == anthropic(right, message).prefix


@pytest.mark.parametrize("text", ["x-ray\ns", "x-", "see x-billing: a\ns", "x-billing without a colon"])
def test_text_that_only_resembles_an_attribution_counts(text: str) -> None:
    assert anthropic(text).prefix != anthropic("s").prefix
    assert anthropic(text).prefix != anthropic("").prefix


def test_an_appended_system_message_hides_nothing_before_it() -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    budget = [{"role": "system", "content": f"<left>{n}</left>"} for n in (4999, 3999)]
    one = anthropic("s", *turns, budget[0], turns[0])
    two = anthropic("s", *turns, budget[0], turns[0], turns[1], budget[1], turns[0])
    assert one.prefix == two.prefix[: len(one.prefix)]
    assert shared(one, anthropic("s", *turns, budget[1], turns[0])) == 3


@pytest.mark.parametrize("char", ["a", "é", "潮", "🌊"])
@pytest.mark.parametrize(("size", "marks"), [(KI, 0), (KI + 1, 1), (10 * KI, 5), (100 * KI, 4 + 14 + 3)])
def test_long_text_is_marked_in_blocks(char: str, size: int, marks: int) -> None:
    assert len(talk(char * size).prefix) == 1 + marks + 1


@pytest.mark.parametrize("char", ["a", "潮"])
def test_a_document_is_shared_whatever_follows_it(char: str) -> None:
    document = char * (100 * KI)
    left, right = talk(document + "What is it?"), talk(document + "Où est-ce?")
    assert shared(left, right) == len(left.prefix) - 1


def test_a_block_of_ascii_is_the_same_beside_other_text() -> None:
    assert shared(talk("a" * 3 * KI), talk("a" * 2 * KI + "潮" * KI)) == 3


def test_pictures_count_by_uuid_or_content() -> None:
    def picture(**fields: Any) -> RequestInfo:
        return chat(messages=[{"role": "user", "content": [{"type": "image_url", **fields}]}])

    assert picture(uuid="1").prefix == picture(uuid="1", image_url={"url": "x"}).prefix
    assert picture(uuid="1").prefix != picture(uuid="2").prefix
    assert picture(image_url={"url": "x"}).prefix != picture(image_url={"url": "y"}).prefix


def test_tool_calls_count() -> None:
    def call(arguments: str) -> RequestInfo:
        calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
        return chat(messages=[{"role": "assistant", "content": "", "tool_calls": calls}])

    assert shared(call("{}"), call('{"a":1}')) == 1


@pytest.mark.parametrize(
    "message",
    [
        lambda text: {"content": "a", "reasoning_content": text},
        lambda text: {"content": "a", "reasoning": text},
        lambda text: {"content": [{"type": "thinking", "thinking": text}]},
        lambda text: {"content": [{"type": "refusal", "refusal": text}]},
        lambda text: {"content": [{"type": "document", "source": {"type": "text", "data": text}}]},
    ],
    ids=["reasoning_content", "reasoning", "thinking", "refusal", "document"],
)
def test_text_beside_the_content_counts(message: Callable[[str], dict[str, Any]]) -> None:
    def told(text: str) -> RequestInfo:
        return chat(messages=[{"role": "assistant", **message(text)}])

    assert shared(told("b"), told("c")) == 1
    assert told("b").prefix == told("b").prefix


def test_token_ids_are_marked_like_text() -> None:
    def ids(*tokens: int) -> RequestInfo:
        return read({"model": "m", "prompt": list(tokens)}, "/v1/completions")

    left, right = ids(*range(5000), 1), ids(*range(5000), 2)
    assert 5 < len(left.prefix) - 1 == shared(left, right)


def test_only_the_first_prompt_of_many_is_marked() -> None:
    def prompts(*texts: str) -> RequestInfo:
        return read({"model": "m", "prompt": list(texts)}, "/v1/completions")

    assert prompts("a", "b").prefix == prompts("a", "c").prefix == prompts("a").prefix
    batch = chat(messages=[[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]])
    assert batch.prefix == talk("a").prefix


@pytest.mark.parametrize(
    "path", ["/v1/embeddings", "/v1/images/generations", "/tokenize", "/v1/audio/speech", "/v1/score"]
)
def test_nothing_is_marked_where_no_prefix_is_kept(path: str) -> None:
    assert read({"model": "m", "input": "a", "prompt": "a", "text_1": "a", "text_2": "b"}, path).prefix == ()


def test_marks_are_equal_in_every_process() -> None:
    script = (
        "from tests.ext_proc.parse.reading import chat\n"
        "print(chat(messages=[{'role': 'poet', 'content': 'ébb ' * 999}], tools=[{'a': 1}]).prefix)"
    )
    here = str(chat(messages=[{"role": "poet", "content": "ébb " * 999}], tools=[{"a": 1}]).prefix)
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
        assert here == done.stdout.strip()

"""Conversations: chat completions, Anthropic's messages and the Responses API."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from ext_proc.parse.allowance import CONVERSATION_COST, PART_COST, TOOL_COST
from ext_proc.parse.body import Item, Message
from ext_proc.parse.fingerprint import without_attribution
from ext_proc.parse.prompt import Prompt
from ext_proc.parse.scalars import NULL, is_null
from ext_proc.parse.tools import CACHE_CONTROL, listed_tools, without_cache_control

_SYSTEM: Final = frozenset({"system", "developer"})
_MESSAGE_TYPES: Final = (None, "message")


def read_batch(prompt: Prompt, system: Any, tools: tuple[Raw, ...], conversations: list[Any]) -> None:
    """Several conversations with the same system text and tools. Only the first is fingerprinted."""
    prompt.spend(CONVERSATION_COST * len(conversations))
    chain = prompt.chain
    for conversation in conversations:
        read_conversation(prompt, system, tools, conversation)
        prompt.chain = None
    prompt.chain = chain


def read_conversation(prompt: Prompt, system: Any, tools: tuple[Raw, ...], messages: Any) -> None:
    """System text, tools, messages. Leading system messages come before the tools."""
    turns = messages if type(messages) is list else []
    prompt.spend(PART_COST * len(turns))
    head = _system_messages(turns)
    prompt.begin("system")
    _system(prompt, system)
    for turn in turns[:head]:
        _system(prompt, turn.content)
    prompt.end()
    for raw in tools:
        _tools(prompt, raw)
    for turn in turns[head:] if head else turns:
        kind = type(turn)
        if kind is Message:
            _message(prompt, turn)
        elif kind is Item:
            _turn(prompt, turn)


def _system_messages(turns: list[Any]) -> int:
    """How many messages at the head of a conversation are the system's."""
    for at, turn in enumerate(turns):
        role = turn.role if type(turn) in {Message, Item} else None
        if type(role) is not str or role not in _SYSTEM:
            return at
    return len(turns)


def _system(prompt: Prompt, value: Any) -> None:
    """A system text, or its blocks, without the lines that change with every request."""
    listed = type(value) is list
    prompt.spend(PART_COST * len(value) if listed else 0)
    for block in value if listed else (value,):
        text = block.text if type(block) is Item else block
        if type(text) is str:
            prompt.chars += len(text)
            if prompt.chain is not None:
                kept = without_attribution(text)
                prompt.chain.skip(len(text) - len(kept))
                if kept:
                    prompt.chain.text(kept)


def _tools(prompt: Prompt, raw: Raw) -> None:
    if is_null(raw):
        return
    tools = listed_tools(raw)
    prompt.spend(TOOL_COST * len(tools))
    prompt.tools += len(tools)
    marked = CACHE_CONTROL in bytes(raw)
    for tool in tools:
        data = bytes(tool)
        prompt.tool_bytes += len(data)
        if prompt.chain is not None:
            prompt.chain.tool(without_cache_control(data) if marked else data, len(data))


def _turn(prompt: Prompt, item: Item) -> None:
    """An item of the Responses API."""
    content = item.content
    if type(content) is str and item.role is not None and item.type in _MESSAGE_TYPES:
        prompt.chars += len(content)
        if prompt.chain is not None:
            prompt.chain.message(item.role, content)
        return
    prompt.begin(item.role)
    prompt.item(item, 0)
    prompt.end()


def _message(prompt: Prompt, message: Message) -> None:
    content, chain = message.content, prompt.chain
    reasoning = message.reasoning if message.reasoning_content is None else message.reasoning_content
    if type(content) is str and reasoning is None and message.tool_calls is message.function_call is NULL:
        prompt.chars += len(content)
        if chain is not None:
            chain.message(message.role, content)
        return
    prompt.begin(message.role)
    if reasoning is not None:
        prompt.value(reasoning)
    if content is not None:
        prompt.value(content)
    if not (message.tool_calls is message.function_call is NULL):
        prompt.calls(message.tool_calls, message.function_call)
    prompt.end()

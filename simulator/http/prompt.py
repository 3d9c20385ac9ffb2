"""Bodies become prompts: a chat template, and a fixed price for what is not text."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from simulator.http.bodies import Content, Message
from simulator.http.errors import bad_request
from simulator.http.text import Prompt

_MEDIA_BYTES = 1024  # 256 tokens a picture or sound
_TEXT_PARTS = {"text", "input_text", "output_text"}


def chat_prompt(
    messages: Iterable[Message], tools: list[dict[str, Any]] | None = None, system: Content = None
) -> Prompt:
    """Render a conversation so that a later turn's prompt starts with this one's prompt and answer."""
    head = _turn("system", msgspec.json.encode(tools).decode()) if tools else ""
    if system:
        head += _turn("system", flatten(system))
    turns = [_turn(m.role, flatten(m.content) + _calls(m)) for m in messages]
    return Prompt.of_text(f"{head}{''.join(turns)}<|im_start|>assistant\n")


def prompts(given: str | list[str | int | list[int]], param: str) -> list[Prompt]:
    """A prompt, several, or token ids; a list mixes no kinds. Raises ApiError 400."""
    if isinstance(given, str):
        return [Prompt.of_text(given)]
    kinds = {type(item) for item in given}
    if len(kinds) != 1 or any(isinstance(item, list) and not item for item in given):
        raise bad_request(f"{param} must be a text, token ids, or a list of either.", param)
    if int in kinds:
        return [Prompt.of_ids([i for i in given if isinstance(i, int)])]
    return [Prompt.of_text(i) if isinstance(i, str) else Prompt.of_ids(i) for i in given if not isinstance(i, int)]


def flatten(content: Any) -> str:
    """Text of a message's content; media becomes a placeholder that differs when the media does."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part(part) for part in content)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    if part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
        return str(part["text"])
    if part.get("type") == "tool_result":
        return flatten(part.get("content"))
    digest = sha256(msgspec.json.encode(part)).hexdigest()
    return digest * (_MEDIA_BYTES // len(digest))


def _turn(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def _calls(message: Message) -> str:
    return msgspec.json.encode(message.tool_calls).decode() if message.tool_calls else ""

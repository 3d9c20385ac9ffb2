"""How these tests read a request, and how they state what was read."""

from __future__ import annotations

import json
from typing import Any

from ext_proc.parse.request import parse_request
from tidegate.domain.refusal import SHAPES, Refusal
from tidegate.domain.request import RequestInfo

CHAT = "/v1/chat/completions"
LIMIT = 1 << 24

DEFAULTS: dict[str, Any] = {
    "stream": False,
    "kind": "text",
    "generation": True,
    "num_prompts": 1,
    "num_sequences": 1,
    "max_output_tokens": None,
    "prompt_tokens": None,
    "tools": 0,
    "media": {},
    "loras": [],
    "priority": 0,
    "user": None,
    "cache_salt": None,
    "prompt_cache_key": None,
    "previous_response_id": None,
    "session_id": None,
    "media_uuids": [],
    "image": None,
}


def read(
    body: bytes | dict[str, Any],
    path: str = CHAT,
    *,
    content_type: str | None = "application/json",
    content_encoding: str | None = None,
    limit: int = LIMIT,
) -> RequestInfo:
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return parse_request(data, path=path, content_type=content_type, content_encoding=content_encoding, max_bytes=limit)


def chat(**fields: Any) -> RequestInfo:
    """A chat of one message of one character, with `fields` besides."""
    return read({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields})


def refusal(body: bytes | dict[str, Any], path: str = CHAT, **options: Any) -> tuple[int, str]:
    """Status and reason of the refusal of `body`; (0, "") when it is read."""
    try:
        read(body, path, **options)
    except Refusal as refused:
        return SHAPES[refused.reason].status, refused.reason.value
    return 0, ""


def told(info: RequestInfo) -> dict[str, Any]:
    """What was read, flat, as the table of bodies states it."""
    image = info.image
    return {
        "model": info.model,
        "stream": info.stream,
        "kind": info.kind.value,
        "generation": info.generation,
        "num_prompts": info.num_prompts,
        "num_sequences": info.num_sequences,
        "max_output_tokens": info.max_output_tokens,
        "prompt_chars": info.prompt_chars,
        "prompt_tokens": info.prompt_tokens,
        "tools": info.tools,
        "media": {media.value: parts for media, parts in info.media.items()},
        "loras": list(info.loras),
        "priority": info.priority,
        "user": info.user,
        "cache_salt": info.affinity.cache_salt,
        "prompt_cache_key": info.affinity.prompt_cache_key,
        "previous_response_id": info.affinity.previous_response_id,
        "session_id": info.affinity.session_id,
        "media_uuids": list(info.affinity.media_uuids),
        "image": None if image is None else [image.width, image.height, image.steps, image.images],
    }

"""The request that is sent: a chat completion of an exact size."""

from __future__ import annotations

import json

MODEL = "phi-3"
PATH = "/v1/chat/completions"
FILLER = "Envoy asks the picker which replica has room, and the picker knows. "


def chat_body(size_bytes: int, start: str = "") -> bytes:
    """A chat completion whose JSON is exactly `size_bytes` long, and whose prompt begins with `start`.

    Raises ValueError under some 120 bytes.
    """

    def body(text: str) -> bytes:
        messages = [{"role": "user", "content": text}]
        return json.dumps({"model": MODEL, "messages": messages, "max_tokens": 16}).encode()

    missing = size_bytes - len(body(""))
    if missing < 0:
        raise ValueError(f"a chat body has at least {len(body(''))} bytes, not {size_bytes}")
    return body((start + FILLER * (missing // len(FILLER) + 1))[:missing])

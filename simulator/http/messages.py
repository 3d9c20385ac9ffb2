"""Anthropic's /v1/messages, whole or streamed, and its token count."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from aiohttp import web

from simulator.engine import FinishReason
from simulator.http import sse
from simulator.http.bodies import MessagesBody, body_of
from simulator.http.errors import bad_request, json_response
from simulator.http.llm import Ask, Generation, Llm
from simulator.http.prompt import chat_prompt


class MessagesApi:
    """Messages."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def create(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/messages."""
        body = await body_of(request, MessagesBody)
        model = self._llm.check_model(body.model)
        if body.max_tokens is None:
            raise bad_request("max_tokens: Field required", "max_tokens")
        prompt = chat_prompt(body.messages, body.tools, body.system)
        ask = Ask([prompt], max_tokens=body.max_tokens, stream=bool(body.stream))
        async with self._llm.generate(ask) as generation:
            if body.stream:
                return await sse.send(request, _stream(generation, model))
            await generation.finished()
            content = [{"type": "text", "text": generation.texts[0]}]
            usage = {"input_tokens": prompt.tokens, "output_tokens": generation.completion_tokens}
            return json_response(_message(model, content, usage, _stop_reason(generation)))

    async def count(self, request: web.Request) -> web.Response:
        """POST /v1/messages/count_tokens."""
        body = await body_of(request, MessagesBody)
        self._llm.check_model(body.model)
        return json_response({"input_tokens": chat_prompt(body.messages, body.tools, body.system).tokens})


async def _stream(generation: Generation, model: str) -> AsyncGenerator[bytes, None]:
    usage = {"input_tokens": generation.prompt_tokens, "output_tokens": 0}
    yield sse.named({"type": "message_start", "message": _message(model, [], usage, None)})
    block = {"type": "text", "text": ""}
    yield sse.named({"type": "content_block_start", "index": 0, "content_block": block})
    async for piece in generation.pieces():
        delta = {"type": "text_delta", "text": piece.text}
        yield sse.named({"type": "content_block_delta", "index": 0, "delta": delta})
    yield sse.named({"type": "content_block_stop", "index": 0})
    stop = {"stop_reason": _stop_reason(generation), "stop_sequence": None}
    tokens = {"output_tokens": generation.completion_tokens}
    yield sse.named({"type": "message_delta", "delta": stop, "usage": tokens})
    yield sse.named({"type": "message_stop"})


def _message(model: str, content: list[Any], usage: dict[str, int], stop: str | None) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop_reason(generation: Generation) -> str:
    return "max_tokens" if generation.finish(0) is FinishReason.LENGTH else "end_turn"

"""/v1/chat/completions and /v1/completions, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from aiohttp import web

from simulator.http import sse
from simulator.http.bodies import ChatBody, CompletionBody, Sampled, body_of
from simulator.http.errors import json_response
from simulator.http.llm import Ask, Generation, Llm, Piece
from simulator.http.prompt import chat_prompt, prompts

_COMPLETION_TOKENS = 16  # what vLLM gives when nobody says


def usage(generation: Generation) -> dict[str, Any]:
    """The `usage` of a finished generation."""
    prompt, completion = generation.prompt_tokens, generation.completion_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": generation.cached_tokens},
    }


class _Envelope:
    """What every answer and every chunk of one request repeats."""

    def __init__(self, prefix: str, kind: str, model: str) -> None:
        self._fields = {
            "id": f"{prefix}-{uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }

    def around(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {**self._fields, "choices": choices, **more}


class ChatApi:
    """Chat completions."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def create(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        body = await body_of(request, ChatBody)
        model = self._llm.check_model(body.model)
        limit = body.max_completion_tokens or body.max_tokens
        ask = Ask([chat_prompt(body.messages, body.tools)], body.n or 1, limit, bool(body.stream))
        async with self._llm.generate(ask) as generation:
            if body.stream:
                envelope = _Envelope("chatcmpl", "chat.completion.chunk", model)
                return await sse.send(request, _stream(body, generation, envelope, _delta, roles=True))
            await generation.finished()
            choices = [_message(index, text, generation) for index, text in enumerate(generation.texts)]
            envelope = _Envelope("chatcmpl", "chat.completion", model)
            return json_response(envelope.around(choices, usage=usage(generation)))


class CompletionApi:
    """Completions."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def create(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/completions."""
        body = await body_of(request, CompletionBody)
        model = self._llm.check_model(body.model)
        given, n = prompts(body.prompt, "prompt"), body.n or 1
        ask = Ask(given, n, body.max_tokens or _COMPLETION_TOKENS, bool(body.stream))
        echoes = [prompt.data.decode(errors="replace") if body.echo else "" for prompt in given]
        async with self._llm.generate(ask) as generation:
            envelope = _Envelope("cmpl", "text_completion", model)
            if body.stream:
                return await sse.send(request, _stream(body, generation, envelope, _text, roles=False))
            await generation.finished()
            choices = [
                _text(Piece(index, echoes[index // n] + text, generation.finish(index)))
                for index, text in enumerate(generation.texts)
            ]
            return json_response(envelope.around(choices, usage=usage(generation)))


async def _stream(
    body: Sampled, generation: Generation, envelope: _Envelope, render: Any, *, roles: bool
) -> AsyncGenerator[bytes, None]:
    if roles:
        for index in range(len(generation.texts)):
            yield sse.data(envelope.around([_choice(index, None, delta={"role": "assistant", "content": ""})]))
    async for piece in generation.pieces():
        yield sse.data(envelope.around([render(piece)]))
    if body.include_usage:
        yield sse.data(envelope.around([], usage=usage(generation)))
    yield sse.DONE


def _choice(index: int, finish: str | None, **content: Any) -> dict[str, Any]:
    return {"index": index, **content, "logprobs": None, "finish_reason": finish}


def _message(index: int, text: str, generation: Generation) -> dict[str, Any]:
    return _choice(index, generation.finish(index), message={"role": "assistant", "content": text})


def _delta(piece: Piece) -> dict[str, Any]:
    return _choice(piece.choice, piece.finish, delta={"content": piece.text})


def _text(piece: Piece) -> dict[str, Any]:
    return _choice(piece.choice, piece.finish, text=piece.text)

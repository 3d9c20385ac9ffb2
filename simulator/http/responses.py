"""OpenAI's /v1/responses, whole or streamed. Nothing is stored."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from aiohttp import web

from simulator.engine import FinishReason
from simulator.http import sse
from simulator.http.bodies import Message, ResponsesBody, body_of
from simulator.http.errors import ApiError, json_response
from simulator.http.llm import Ask, Generation, Llm
from simulator.http.prompt import chat_prompt, flatten
from simulator.http.text import Prompt


class ResponsesApi:
    """Responses."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def create(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/responses."""
        body = await body_of(request, ResponsesBody)
        model = self._llm.check_model(body.model)
        if body.previous_response_id is not None:
            missing = f"Response with id '{body.previous_response_id}' not found."
            raise ApiError(404, "invalid_request_error", missing, "previous_response_id")
        limit = body.max_output_tokens or body.max_tokens
        answer = _Answer(model)
        async with self._llm.generate(Ask([_prompt(body)], 1, limit, bool(body.stream))) as generation:
            if body.stream:
                return await sse.send(request, answer.stream(generation))
            await generation.finished()
            return json_response(answer.finished(generation))


class _Answer:
    """One response object, in progress and finished, and the events between."""

    def __init__(self, model: str) -> None:
        self._item_id, self._sequence = f"msg_{uuid4().hex}", -1
        self._fields = {
            "id": f"resp_{uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def finished(self, generation: Generation) -> dict[str, Any]:
        cut = generation.finish(0) is FinishReason.LENGTH
        status = "incomplete" if cut else "completed"
        details = {"reason": "max_output_tokens"} if cut else None
        prompt, completion = generation.prompt_tokens, generation.completion_tokens
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": generation.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }
        output = [self._item(status, [_content(generation.texts[0])])]
        return {
            **self._fields,
            "status": status,
            "incomplete_details": details,
            "output": output,
            "usage": usage,
        }

    async def stream(self, generation: Generation) -> AsyncGenerator[bytes, None]:
        started = {**self._fields, "status": "in_progress", "output": []}
        item = self._item("in_progress", [])
        yield self._event("response.created", response=started)
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._part("response.content_part.added", part=_content(""))
        async for piece in generation.pieces():
            yield self._part("response.output_text.delta", delta=piece.text, logprobs=[])
        text = generation.texts[0]
        yield self._part("response.output_text.done", text=text, logprobs=[])
        yield self._part("response.content_part.done", part=_content(text))
        final = self.finished(generation)
        yield self._event("response.output_item.done", output_index=0, item=final["output"][0])
        yield self._event("response.completed", response=final)  # as vLLM: a cut answer is in its status

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        fields = {"id": self._item_id, "type": "message", "role": "assistant"}
        return {**fields, "status": status, "content": content}

    def _part(self, kind: str, **fields: Any) -> bytes:
        return self._event(kind, item_id=self._item_id, output_index=0, content_index=0, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        return sse.named({"type": kind, "sequence_number": self._sequence, **fields})


def _content(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _prompt(body: ResponsesBody) -> Prompt:
    given = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    turns = [Message(str(item.get("role", "tool")), flatten(item.get("content", [item]))) for item in given]
    return chat_prompt(turns, body.tools, body.instructions)

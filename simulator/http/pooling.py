"""Prefill only: embeddings, pooling, rerank and score. Vectors and scores come from hashes."""

from __future__ import annotations

import struct
import time
from base64 import b64encode
from collections.abc import Sequence
from hashlib import shake_256
from typing import Any
from uuid import uuid4

from aiohttp import web

from simulator.http.bodies import EmbeddingBody, RerankBody, ScoreBody, body_of
from simulator.http.errors import bad_request, json_response
from simulator.http.llm import Llm
from simulator.http.prompt import prompts
from simulator.http.text import Prompt

_DIMENSIONS = 64


class PoolingApi:
    """Everything that an encoder answers."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def embeddings(self, request: web.Request) -> web.Response:
        """POST /v1/embeddings; `encoding_format` is float or base64 (little-endian float32)."""
        body = await body_of(request, EmbeddingBody)
        model, given = self._llm.check_model(body.model), prompts(body.input, "input")
        if body.encoding_format not in (None, "float", "base64"):
            raise bad_request("encoding_format must be float or base64.", "encoding_format")
        await self._run(given)
        size, packed = body.dimensions or _DIMENSIONS, body.encoding_format == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _pack(vector) if packed else vector}
            for index, vector in enumerate(_vector(prompt.data, size) for prompt in given)
        ]
        return json_response(_answer("embd", "list", model, given, data=data))

    async def pooling(self, request: web.Request) -> web.Response:
        """POST /pooling."""
        body = await body_of(request, EmbeddingBody)
        model, given = self._llm.check_model(body.model), prompts(body.input, "input")
        await self._run(given)
        data = [
            {"object": "pooling", "index": index, "data": _vector(prompt.data, _DIMENSIONS)}
            for index, prompt in enumerate(given)
        ]
        return json_response(_answer("pool", "list", model, given, data=data))

    async def rerank(self, request: web.Request) -> web.Response:
        """POST /v1/rerank: documents by falling relevance."""
        body = await body_of(request, RerankBody)
        model = self._llm.check_model(body.model)
        pairs = [Prompt.of_text(f"{body.query}\n{document}") for document in body.documents]
        await self._run(pairs)
        results = [
            {"index": index, "document": {"text": body.documents[index]}, "relevance_score": _score(pair)}
            for index, pair in enumerate(pairs)
        ]
        results.sort(key=lambda result: -float(str(result["relevance_score"])))
        tokens = sum(pair.tokens for pair in pairs)
        wanted = results[: body.top_n] if body.top_n else results
        answer = {"id": f"rerank-{uuid4().hex}", "model": model, "usage": {"total_tokens": tokens}}
        return json_response({**answer, "results": wanted})

    async def score(self, request: web.Request) -> web.Response:
        """POST /v1/score: one text against one or several, or pairwise."""
        body = await body_of(request, ScoreBody)
        model = self._llm.check_model(body.model)
        pairs = [Prompt.of_text(f"{one}\n{two}") for one, two in _pairs(body.text_1, body.text_2)]
        await self._run(pairs)
        data = [{"index": index, "object": "score", "score": _score(pair)} for index, pair in enumerate(pairs)]
        return json_response(_answer("score", "list", model, pairs, data=data))

    async def _run(self, given: list[Prompt]) -> None:
        async with self._llm.encode(given) as generation:
            await generation.finished()


def _answer(prefix: str, kind: str, model: str, given: list[Prompt], **fields: Any) -> dict[str, Any]:
    tokens = sum(prompt.tokens for prompt in given)
    head = {"id": f"{prefix}-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}
    return {**head, **fields, "usage": {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}}


def _pairs(one: str | list[str], two: str | list[str]) -> list[tuple[str, str]]:
    first = [one] if isinstance(one, str) else one
    second = [two] if isinstance(two, str) else two
    if len(first) == 1:
        first = first * len(second)
    if not second or len(first) != len(second):
        raise bad_request("text_1 must be one text or as many as text_2.", "text_1")
    return list(zip(first, second, strict=True))


def _vector(data: bytes, size: int) -> list[float]:
    return [byte / 128 - 1 for byte in shake_256(data).digest(size)]


def _score(pair: Prompt) -> float:
    return int.from_bytes(shake_256(pair.data).digest(2), "little") / 65536


def _pack(vector: Sequence[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

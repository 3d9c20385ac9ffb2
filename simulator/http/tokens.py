"""/tokenize and /detokenize. Four bytes are a token, so that ids are the bytes themselves."""

from __future__ import annotations

import struct

from aiohttp import web

from simulator.http.bodies import DetokenizeBody, TokenizeBody, body_of
from simulator.http.errors import bad_request, json_response
from simulator.http.llm import Llm
from simulator.http.prompt import chat_prompt
from simulator.http.text import Prompt, token_ids


class TokensApi:
    """The tokenizer that there is none of."""

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    async def tokenize(self, request: web.Request) -> web.Response:
        """POST /tokenize, of a prompt or of messages."""
        body = await body_of(request, TokenizeBody)
        self._llm.check_model(body.model)
        if body.messages:
            prompt = chat_prompt(body.messages, body.tools)
        elif body.prompt is not None:
            prompt = Prompt.of_text(body.prompt)
        else:
            raise bad_request("prompt or messages is required.", "prompt")
        limit = self._llm.params.max_model_len
        return json_response({"count": prompt.tokens, "max_model_len": limit, "tokens": token_ids(prompt)})

    async def detokenize(self, request: web.Request) -> web.Response:
        """POST /detokenize, the inverse."""
        body = await body_of(request, DetokenizeBody)
        self._llm.check_model(body.model)
        ids = [token & 0xFFFFFFFF for token in body.tokens]
        data = struct.pack(f"<{len(ids)}I", *ids).rstrip(b"\0")
        return json_response({"prompt": data.decode(errors="replace")})

"""Puts an application together: routes by kind, and the order in which a request meets record, fault and handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from simulator.http.audio import AudioApi
from simulator.http.chat import ChatApi, CompletionApi
from simulator.http.errors import ApiError, error_response, json_response
from simulator.http.faults import Faults
from simulator.http.images import Diffusion, ImagesApi
from simulator.http.llm import Llm
from simulator.http.messages import MessagesApi
from simulator.http.pages import Pages, Probes
from simulator.http.pooling import PoolingApi
from simulator.http.record import Record
from simulator.http.responses import ResponsesApi
from simulator.http.tokens import TokensApi
from simulator.http.traces import remember_parent

ENGINE_HEADER = "x-sim-engine"
MAX_BODY_BYTES = 64 * 2**20
_OWN_PATHS = "/sim/"
_PROBE_PATHS = {"/health", "/metrics", "/v1/models"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def llm_routes(llm: Llm) -> dict[str, Handler]:
    """POST paths of a language model's engine."""
    messages, pooling, tokens, audio = MessagesApi(llm), PoolingApi(llm), TokensApi(llm), AudioApi(llm)
    return {
        "/v1/chat/completions": ChatApi(llm).create,
        "/v1/completions": CompletionApi(llm).create,
        "/v1/responses": ResponsesApi(llm).create,
        "/v1/messages": messages.create,
        "/v1/messages/count_tokens": messages.count,
        "/v1/embeddings": pooling.embeddings,
        "/pooling": pooling.pooling,
        "/rerank": pooling.rerank,
        "/v1/rerank": pooling.rerank,
        "/v2/rerank": pooling.rerank,
        "/score": pooling.score,
        "/v1/score": pooling.score,
        "/tokenize": tokens.tokenize,
        "/detokenize": tokens.detokenize,
        "/v1/audio/transcriptions": audio.transcribe,
        "/v1/audio/speech": audio.speak,
    }


def diffusion_routes(diffusion: Diffusion) -> dict[str, Handler]:
    """POST paths of a diffusion engine."""
    return {"/v1/images/generations": ImagesApi(diffusion).create}


def build(
    routes: dict[str, Handler],
    pages: Pages,
    probes: Probes,
    faults: Faults,
    record: Record,
    identity: list[str],
    *,
    traced: bool = False,
) -> web.Application:
    """An application. Every response names the first of `identity`, which may be filled in once bound."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(_OWN_PATHS):
            return await _answer(request, handler)
        if traced:
            remember_parent(request)
        if record.enabled and request.path not in _PROBE_PATHS:
            await record.add(request)
        try:
            await faults.meet(generating=request.path not in _PROBE_PATHS)
        except ApiError as error:
            return error_response(error)
        return await _answer(request, handler)

    async def name_engine(_: web.Request, response: web.StreamResponse) -> None:
        response.headers[ENGINE_HEADER] = identity[0]

    app = web.Application(middlewares=[guard], client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(name_engine)
    app.router.add_get("/health", probes.health)
    app.router.add_get("/metrics", pages.metrics)
    app.router.add_get("/v1/models", pages.models)
    app.router.add_post("/sim/fault", probes.fault)
    app.router.add_get("/sim/requests", probes.requests)
    for path, route in routes.items():
        app.router.add_post(path, route)
    return app


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return error_response(error)
    except web.HTTPException as error:
        return json_response({"detail": error.reason}, error.status)

"""What clients send, as far as an engine's cost depends on it. Unknown fields are ignored, as vLLM does."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from simulator.http.errors import bad_request

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=1, le=16384)]
Content = str | list[dict[str, Any]] | None
Texts = str | list[int] | list[str] | list[list[int]]
B = TypeVar("B", bound=Struct)


class StreamOptions(Struct):
    """`stream_options`."""

    include_usage: bool | None = False


class Message(Struct):
    """One turn of a conversation."""

    role: str
    content: Content = None
    tool_calls: list[dict[str, Any]] | None = None


class Modelled(Struct, kw_only=True):
    """Every body names a model; without one the first served answers."""

    model: str | None = None


class Sampled(Modelled, kw_only=True):
    """A body that asks for generated text."""

    n: Count | None = None
    max_tokens: Positive | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def __post_init__(self) -> None:
        if self.stream_options is not None and not self.stream:
            raise ValueError("Stream options can only be defined when `stream=True`.")

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with a usage chunk."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ChatBody(Sampled, kw_only=True):
    """POST /v1/chat/completions. `max_completion_tokens` wins over `max_tokens`."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Positive | None = None
    tools: list[dict[str, Any]] | None = None


class CompletionBody(Sampled, kw_only=True):
    """POST /v1/completions."""

    prompt: str | list[str | int | list[int]]
    echo: bool | None = None


class MessagesBody(Sampled, kw_only=True):
    """POST /v1/messages, which insists on `max_tokens`, and /v1/messages/count_tokens, which does not."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    system: Content = None
    tools: list[dict[str, Any]] | None = None


class ResponsesBody(Sampled, kw_only=True):
    """POST /v1/responses. Nothing is stored, so `previous_response_id` is answered 404."""

    input: str | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: Positive | None = None
    previous_response_id: str | None = None
    tools: list[dict[str, Any]] | None = None


class EmbeddingBody(Modelled, kw_only=True):
    """POST /v1/embeddings and /pooling."""

    input: str | list[str | int | list[int]]
    encoding_format: str | None = None
    dimensions: Annotated[int, Meta(ge=1, le=4096)] | None = None


class RerankBody(Modelled, kw_only=True):
    """POST /v1/rerank."""

    query: str
    documents: Annotated[list[str], Meta(min_length=1)]
    top_n: int | None = None


class ScoreBody(Modelled, kw_only=True):
    """POST /v1/score."""

    text_1: str | list[str]
    text_2: str | list[str]


class TokenizeBody(Modelled, kw_only=True):
    """POST /tokenize: a prompt or messages."""

    prompt: str | None = None
    messages: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None


class DetokenizeBody(Modelled, kw_only=True):
    """POST /detokenize."""

    tokens: list[Annotated[int, Meta(ge=0)]]


class ImageBody(Modelled, kw_only=True):
    """POST /v1/images/generations."""

    prompt: str
    n: Annotated[int, Meta(ge=1, le=16)] | None = None
    size: str | None = None
    response_format: str | None = None
    num_inference_steps: Annotated[int, Meta(ge=1, le=1000)] | None = None


class SpeechBody(Modelled, kw_only=True):
    """POST /v1/audio/speech."""

    input: str


async def body_of(request: web.Request, kind: type[B]) -> B:
    """Read and check a JSON body. Raises ApiError 400."""
    raw = await request.read()
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise bad_request(str(exc)) from exc

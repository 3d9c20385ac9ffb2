"""Which endpoint a path means, however a client writes it. The path is forwarded as it came."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from tidegate.domain.routing import Api

_PAIRS: Final[dict[tuple[str, ...], Api]] = {
    ("chat", "completions"): Api.CHAT,
    ("completions", "batch"): Api.CHAT,
    ("messages", "count_tokens"): Api.COUNT_TOKENS,
    ("images", "generations"): Api.IMAGES,
    ("images", "edits"): Api.IMAGES,
    ("images", "variations"): Api.IMAGES,
    ("v1", "txt2img"): Api.IMAGES,
    ("v1", "img2img"): Api.IMAGES,
    ("audio", "speech"): Api.AUDIO,
    ("audio", "transcriptions"): Api.AUDIO,
    ("audio", "translations"): Api.AUDIO,
}
_SINGLES: Final = {
    "completions": Api.COMPLETIONS,
    "embeddings": Api.EMBEDDINGS,
    "embed": Api.EMBEDDINGS,
    "responses": Api.RESPONSES,
    "messages": Api.MESSAGES,
    "rerank": Api.RERANK,
    "score": Api.SCORE,
    "pooling": Api.POOLING,
    "classify": Api.POOLING,
    "tokenize": Api.TOKENIZE,
    "detokenize": Api.DETOKENIZE,
    "generate": Api.GENERATE,
}
_MOUNTS: Final = re.compile(r"v\d\w*|openai|anthropic|cohere|api|inference")
"""What may stand before a single word; `/v1/threads/7/messages` is another endpoint than `/v1/messages`."""
_DEPLOYMENTS: Final = frozenset({"deployments", "engines"})

_GENERATING: Final = frozenset(
    {Api.CHAT, Api.COMPLETIONS, Api.RESPONSES, Api.MESSAGES, Api.GENERATE, Api.AUDIO, Api.UNKNOWN}
)
_NEEDS_MESSAGES: Final = frozenset({Api.CHAT, Api.MESSAGES, Api.COUNT_TOKENS})
_SAMPLES: Final = frozenset({Api.CHAT, Api.COMPLETIONS, Api.GENERATE, Api.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a path means, worked out once a path.

    `model` is the name that the path holds, if it does. `generates`: tokens are decoded. `needs_messages`: a body
    without them is refused. `samples`: `n` and its like are read.
    """

    api: Api
    model: str | None
    generates: bool
    needs_messages: bool
    samples: bool


@lru_cache(maxsize=1024)
def endpoint_of(path: str) -> Endpoint:
    """The endpoint of `path`, which may have a query, a trailing slash, doubled slashes and percent escapes."""
    bare = path.partition("?")[0].partition("#")[0]
    segments = tuple(unquote(segment) for segment in bare.split("/") if segment)
    segments, model = _without_deployment(segments)
    api = _api(segments, named=model is not None)
    return Endpoint(api, model, api in _GENERATING, api in _NEEDS_MESSAGES, api in _SAMPLES)


def _without_deployment(segments: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Azure's `…/deployments/NAME/…` and OpenAI's old `…/engines/NAME/…` in two: the path without it, and NAME."""
    for at, segment in enumerate(segments[:-2]):
        if segment in _DEPLOYMENTS:
            return segments[:at] + segments[at + 2 :], segments[at + 1]
    return segments, None


def _api(segments: tuple[str, ...], *, named: bool) -> Api:
    pair = _PAIRS.get(segments[-2:])
    if pair is not None:
        return pair
    if not segments:
        return Api.UNKNOWN
    mounted = len(segments) == 1 or named or _MOUNTS.fullmatch(segments[-2]) is not None
    return _SINGLES.get(segments[-1], Api.UNKNOWN) if mounted else Api.UNKNOWN

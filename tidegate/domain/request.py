"""What one request asks for: read once from its path, headers and body, and passed to everything that decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from tidegate.domain.routing import Api, Media

LARGEST_COUNT: Final = 2**63 - 1
"""Every count read from a body lies in 0…LARGEST_COUNT; a greater one is read as this."""


class Kind(StrEnum):
    """What a request's engine produces or reads: tokens, pictures or sound."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True)
class ImageDemand:
    """What a diffusion request costs: pixels, denoising steps and pictures. None where the request does not say."""

    width: int | None = None
    height: int | None = None
    steps: int | None = None
    images: int = 1


@dataclass(frozen=True, slots=True)
class Affinity:
    """Keys that tie requests to the replica that served an earlier one. None where the request has none."""

    cache_salt: str | None = None
    prompt_cache_key: str | None = None
    previous_response_id: str | None = None
    session_id: str | None = None
    media_uuids: tuple[str, ...] = ()


NO_AFFINITY: Final = Affinity()


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that decides where it goes. Strings are the client's: they may be long and hold anything.

    A struct, since one is made for each request and a frozen dataclass of this size takes five times as long;
    `msgspec.structs.replace` makes a changed copy.

    model             name as written, free of control characters; None when absent, null or empty
    model_in_path     the name stands in the path (`/openai/deployments/NAME/…`), which wins over the body's
    stream            the answer is asked for as events
    generation        tokens are decoded; False for embeddings, scores, tokenizers and pictures
    num_prompts       prompts, inputs, conversations or pairs in this one call; at least 1
    num_sequences     sequences that the engine runs: prompts × max(n, best_of, beam width); at least 1
    max_output_tokens limit per sequence; None when the request gives none, 0 when nothing is decoded
    prompt_chars      code points of text, without media, tools and token ids
    prompt_tokens     tokens given as ids, on top of `prompt_chars`; None when no ids are given
    tool_bytes        bytes of JSON of the tools and tool calls, which are rendered into the prompt as well
    media             parts of each kind; kinds without a part are absent
    loras             names of LoRA adapters that the body asks for beside the model
    priority          lower is served earlier; 0 is the engines' default
    image             for kind IMAGE alone
    prefix            chained 64-bit fingerprints, one for each tool, message and further block of a long text, in
                      the order in which engines render them; two requests share the prompt up to where these agree
    prefix_chars      as long as `prefix`, rising: what of the first prompt stands before the end of each mark, counted
                      as `prompt_chars` + `tool_bytes` are; media count nothing
    prefix_ids        empty, or where the first prompt is token ids, as long as `prefix`: the ids before the end of
                      each mark, for which no ratio is needed; `prefix_chars` is 0 there
    """

    api: Api
    kind: Kind = Kind.TEXT
    model: str | None = None
    model_in_path: bool = False
    stream: bool = False
    generation: bool = True
    num_prompts: int = 1
    num_sequences: int = 1
    max_output_tokens: int | None = None
    prompt_chars: int = 0
    prompt_tokens: int | None = None
    tool_bytes: int = 0
    tools: int = 0
    media: Mapping[Media, int] = msgspec.field(default_factory=dict)
    loras: tuple[str, ...] = ()
    priority: int = 0
    user: str | None = None
    affinity: Affinity = NO_AFFINITY
    image: ImageDemand | None = None
    prefix: tuple[int, ...] = ()
    prefix_chars: tuple[int, ...] = ()
    prefix_ids: tuple[int, ...] = ()

"""How much is decoded: sequences and the limit of each, by the fields that each endpoint reads."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Body, decode_or, elements
from ext_proc.parse.endpoint import Endpoint
from ext_proc.parse.scalars import NULL, count, is_null
from tidegate.domain.request import LARGEST_COUNT, Kind
from tidegate.domain.routing import Api

COMPLETION_TOKENS: Final = 16
"""What the completions endpoint generates when a request sets no limit (OpenAI, vLLM, SGLang)."""

SGLANG_TOKENS: Final = 128
"""What SGLang's `/generate` generates when a request sets no limit."""

VLLM_TOKENS: Final = 16
"""What vLLM's `/inference/v1/generate` generates when a request sets no limit (`SamplingParams.max_tokens`)."""


class Sampling(msgspec.Struct, gc=False):
    """`sampling_params` of vLLM and SGLang, `parameters` of TGI."""

    n: Raw = NULL
    best_of: Raw = NULL
    max_tokens: Raw = NULL
    max_new_tokens: Raw = NULL


_NO_SAMPLING: Final = Sampling()


def sampling_of(body: Body, api: Api) -> Sampling:
    """The sampling parameters that stand in an object of their own; none at other endpoints than the engines'."""
    raw = body.sampling_params if body.sampling_params is not NULL else body.parameters
    if api is not Api.GENERATE or raw is NULL:
        return _NO_SAMPLING
    if memoryview(raw)[0] == ord("["):  # one for each prompt: the first stands for all
        raw = next(iter(elements(raw, "sampling_params")), NULL)
    found = decode_or(Sampling, raw, None)
    return found if isinstance(found, Sampling) else Sampling()


def sequences(body: Body, sampling: Sampling, endpoint: Endpoint, kind: Kind, prompts: int) -> int:
    """Sequences that the engine runs for `prompts` prompts, 1…LARGEST_COUNT; a call for pictures or sound is one."""
    if endpoint.api is Api.IMAGES or endpoint.api is Api.AUDIO:
        return 1
    if not endpoint.samples or kind is Kind.IMAGE:
        return prompts
    if sampling is _NO_SAMPLING and body.n is body.best_of is body.beam_width is NULL:
        return prompts
    each = max(
        1,
        count(body.n, "n") or 1,
        count(sampling.n, "n") or 1,
        count(body.best_of, "best_of") or 1,
        count(sampling.best_of, "best_of") or 1,
        count(body.beam_width, "beam_width") or 1,
    )
    return min(prompts * each, LARGEST_COUNT)


def limit(body: Body, sampling: Sampling, api: Api) -> int | None:
    """Output tokens of one sequence, 0…LARGEST_COUNT; None when the body sets no limit that is one."""
    if api is Api.COMPLETIONS:
        return COMPLETION_TOKENS if is_null(body.max_tokens) else count(body.max_tokens, "max_tokens")
    if api is Api.RESPONSES:
        return count(body.max_output_tokens, "max_output_tokens")
    if api is Api.MESSAGES:
        return count(body.max_tokens, "max_tokens")
    if api is Api.GENERATE:
        return _generate_limit(body, sampling)
    if not is_null(body.max_completion_tokens):
        return count(body.max_completion_tokens, "max_completion_tokens")
    return count(body.max_tokens, "max_tokens")


def _generate_limit(body: Body, sampling: Sampling) -> int | None:
    for raw in (sampling.max_new_tokens, sampling.max_tokens, body.max_new_tokens, body.max_tokens):
        if not is_null(raw):
            return count(raw, "max_tokens")
    if body.text is not None or body.input_ids is not None or body.input_embeds is not NULL:
        return SGLANG_TOKENS
    unset = sampling.max_tokens is NULL and body.max_tokens is NULL  # null is no limit
    return VLLM_TOKENS if body.token_ids is not None and unset else None

"""Body → RequestInfo: which fields of it each endpoint reads, and what their absence means there."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Body, decode_or
from ext_proc.parse.endpoint import Endpoint
from ext_proc.parse.fingerprint import Chain
from ext_proc.parse.images import Extra, asks_for_diffusion, extra_of, image_demand, loras_in_prompt, loras_of
from ext_proc.parse.prompt import Prompt
from ext_proc.parse.sampling import limit, sampling_of, sequences
from ext_proc.parse.scalars import NULL, flag, integer, string
from ext_proc.parse.sources import count_files, read_prompt
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import NO_AFFINITY, Affinity, Kind, RequestInfo
from tidegate.domain.routing import Api

LONGEST_MODEL: Final = 1024
"""Characters of a model's name; a path on a disk fits."""

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _Metadata(msgspec.Struct, gc=False):
    user_id: Raw = NULL


class _Session(msgspec.Struct, gc=False):
    id: Raw = NULL


class _Checkpoint(msgspec.Struct, gc=False):
    sd_model_checkpoint: Raw = NULL


def info_of(body: Body, endpoint: Endpoint, *, files: int = 0) -> RequestInfo:
    """What `body` asks of `endpoint`; `files` come with it as parts of a form. Raises Refusal (invalid-request)."""
    api, extra = endpoint.api, extra_of(body)
    model = endpoint.model if endpoint.model is not None else model_of(body)
    check_model(model)
    kind = _kind(api, body, extra)
    salt, loras = string(body.cache_salt), _loras(body, extra, endpoint)
    prompt = Prompt(Chain(model, salt, *loras) if endpoint.generates and kind is Kind.TEXT else None)
    sampling = sampling_of(body, api)
    prompts = read_prompt(prompt, body, endpoint)
    count_files(prompt, body, api, files)
    marks, chars, ids = _prefix(prompt.chain)
    return RequestInfo(
        api=api,
        kind=kind,
        model=model or None,
        model_in_path=endpoint.model is not None,
        stream=flag(body.stream),
        generation=endpoint.generates,
        num_prompts=prompts,
        num_sequences=sequences(body, sampling, endpoint, kind, prompts),
        max_output_tokens=limit(body, sampling, api) if endpoint.generates else 0,
        prompt_chars=prompt.chars,
        prompt_tokens=prompt.token_ids,
        tool_bytes=prompt.tool_bytes,
        tools=prompt.tools,
        media=prompt.media,
        loras=loras,
        priority=integer(body.priority, "priority") or 0,
        user=_user(body),
        affinity=_affinity(body, salt, prompt),
        image=image_demand(body, extra, prompts) if kind is Kind.IMAGE else None,
        prefix=marks,
        prefix_chars=chars,
        prefix_ids=ids,
    )


def _prefix(chain: Chain | None) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Marks, and characters and token ids up to each."""
    if chain is None:
        return (), (), ()
    ends = tuple(chain.ends)
    return tuple(chain.marks), (0,) * len(ends) if chain.of_ids else ends, ends if chain.of_ids else ()


# model


def model_of(body: Body) -> str | None:
    """The model that a body names, or a web UI's checkpoint. Raises Refusal when it is no string."""
    value = body.model.value
    if value is None and body.override_settings is not NULL:
        found = decode_or(_Checkpoint, body.override_settings, None)
        value = string(found.sd_model_checkpoint) if isinstance(found, _Checkpoint) else None
    if value is not None and not isinstance(value, str):
        raise Refusal(Reason.INVALID_REQUEST, "`model` must be a string.", param="model")
    return value


def check_model(model: str | None) -> None:
    """Raises Refusal for a name that is too long or holds characters that no header may."""
    if model is None:
        return
    if len(model) > LONGEST_MODEL:
        message = f"`model` is longer than {LONGEST_MODEL} characters."
        raise Refusal(Reason.INVALID_REQUEST, message, param="model")
    if _CONTROL.search(model):
        message = "`model` contains control characters."
        raise Refusal(Reason.INVALID_REQUEST, message, param="model")


# pictures and adapters


def _kind(api: Api, body: Body, extra: Extra | None) -> Kind:
    if api is Api.IMAGES or (api is Api.CHAT and asks_for_diffusion(body, extra)):
        return Kind.IMAGE
    return Kind.AUDIO if api is Api.AUDIO else Kind.TEXT


def _loras(body: Body, extra: Extra | None, endpoint: Endpoint) -> tuple[str, ...]:
    named = loras_of(body, extra)
    if endpoint.api is not Api.IMAGES:
        return named
    prompt: Any = body.prompt
    return tuple(dict.fromkeys((*named, *loras_in_prompt(prompt))))


# who asks


def _user(body: Body) -> str | None:
    found = string(body.user) or string(body.safety_identifier)
    if found is None and body.metadata is not NULL:
        metadata = decode_or(_Metadata, body.metadata, None)
        found = string(metadata.user_id) if isinstance(metadata, _Metadata) else None
    return found


def _affinity(body: Body, salt: str | None, prompt: Prompt) -> Affinity:
    keys = (
        salt,
        string(body.prompt_cache_key),
        string(body.previous_response_id),
        _session_id(body),
        tuple(prompt.uuids),
    )
    return Affinity(*keys) if any(keys) else NO_AFFINITY


def _session_id(body: Body) -> str | None:
    found = string(body.session_id)
    if found is None and body.session_params is not NULL:
        session = decode_or(_Session, body.session_params, None)
        found = string(session.id) if isinstance(session, _Session) else None
    return found

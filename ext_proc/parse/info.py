"""Body → RequestInfo: which fields of it each endpoint reads, and what their absence means there."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Body, decode_or, elements
from ext_proc.parse.endpoint import Endpoint
from ext_proc.parse.fingerprint import Chain
from ext_proc.parse.images import Extra, asks_for_diffusion, extra_of, image_demand, loras_in_prompt, loras_of
from ext_proc.parse.prompt import Prompt
from ext_proc.parse.scalars import NULL, count, flag, integer, is_null, string
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import LARGEST_COUNT, NO_AFFINITY, Affinity, Kind, RequestInfo
from tidegate.domain.routing import Api, Media

LONGEST_MODEL: Final = 1024
"""Characters of a model's name; a path on a disk fits."""

COMPLETION_TOKENS: Final = 16
"""What the completions endpoint generates when a request sets no limit (OpenAI, vLLM, SGLang)."""

SGLANG_TOKENS: Final = 128
"""What SGLang's `/generate` generates when a request sets no limit."""

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MEDIA_FIELDS: Final = {
    "image": Media.IMAGE,
    "images": Media.IMAGE,
    "init_images": Media.IMAGE,
    "image_data": Media.IMAGE,
    "audio_data": Media.AUDIO,
    "video_data": Media.VIDEO,
}
_FIELDS_OF_FILES: Final = {Api.IMAGES: Media.IMAGE, Api.AUDIO: Media.AUDIO}


class _Sampling(msgspec.Struct, gc=False):
    """`sampling_params` of the engines' own endpoints: vLLM's and SGLang's names."""

    n: Raw = NULL
    max_tokens: Raw = NULL
    max_new_tokens: Raw = NULL


_NO_SAMPLING: Final = _Sampling()


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
    sampling = _sampling(body, api)
    prompts = _read_prompt(prompt, body, endpoint)
    _count_files(prompt, body, api, files)
    return RequestInfo(
        api=api,
        kind=kind,
        model=model or None,
        model_in_path=endpoint.model is not None,
        stream=flag(body.stream),
        generation=endpoint.generates,
        num_prompts=prompts,
        num_sequences=_sequences(body, sampling, endpoint, kind, prompts),
        max_output_tokens=_limit(body, sampling, api) if endpoint.generates else 0,
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
        prefix=tuple(prompt.chain.marks) if prompt.chain is not None else (),
    )


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


# prompt


def _read_prompt(prompt: Prompt, body: Body, endpoint: Endpoint) -> int:
    """Walk whatever the endpoint calls its prompt; the number of prompts."""
    if body.messages is not None or endpoint.needs_messages:
        return _read_messages(prompt, body, endpoint)
    api = endpoint.api
    if api is Api.RESPONSES:
        return _read_responses(prompt, body)
    if api is Api.RERANK or api is Api.SCORE:
        return _read_pairs(prompt, body)
    for value in (body.prompt, body.input, body.text, body.texts, body.input_ids, body.token_ids, body.tokens):
        if value is not None:
            return prompt.prompts(value)
    return _embedded_prompts(body)


def _read_messages(prompt: Prompt, body: Body, endpoint: Endpoint) -> int:
    messages = body.messages
    if type(messages) is not list:
        if endpoint.needs_messages:
            said = "is required" if messages is None else "must be a list"
            raise Refusal(Reason.INVALID_REQUEST, f"`messages` {said}.", param="messages")
        return 1
    tools = (body.tools, body.functions)
    batch = (
        [conversation for conversation in messages if type(conversation) is list] if list in map(type, messages) else []
    )
    if not batch:
        prompt.conversation((body.system,), tools, messages)
        return 1
    chain = prompt.chain
    for conversation in batch:
        prompt.conversation((body.system,), tools, conversation)
        prompt.chain = None
    prompt.chain = chain
    return len(batch)


def _read_responses(prompt: Prompt, body: Body) -> int:
    text = type(body.input) is str
    prompt.conversation((body.instructions,), (body.tools,), None if text else body.input)
    if text:
        prompt.prompts(body.input)
    return 1


def _read_pairs(prompt: Prompt, body: Body) -> int:
    """Each text of one side against the other's: as many pairs as the longer side has texts."""
    left = next((v for v in (body.query, body.queries, body.text_1, body.data_1) if v is not None), None)
    right = next((v for v in (body.documents, body.items, body.text_2, body.data_2) if v is not None), None)
    sides = [prompt.prompts(side) for side in (left, right) if side is not None]
    return max(sides, default=1)


def _embedded_prompts(body: Body) -> int:
    """Prompts that are sent as tensors."""
    raw = body.prompt_embeds
    listed = raw is not NULL and memoryview(raw)[0] == ord("[")
    return max(1, len(elements(raw, "prompt_embeds"))) if listed else 1


def _count_files(prompt: Prompt, body: Body, api: Api, files: int) -> None:
    """Media that stand beside the prompt."""
    if not files and (
        body.image is body.images is body.init_images is body.image_data is body.audio_data is body.video_data is NULL
    ):
        return
    for name, media in _MEDIA_FIELDS.items():
        _add(prompt, media, _parts(getattr(body, name), name))
    if files and api in _FIELDS_OF_FILES:
        _add(prompt, _FIELDS_OF_FILES[api], files)


def _add(prompt: Prompt, media: Media, parts: int) -> None:
    if parts:
        prompt.media[media] = prompt.media.get(media, 0) + parts


def _parts(raw: Raw, name: str) -> int:
    if is_null(raw):
        return 0
    return len(elements(raw, name)) if memoryview(raw)[0] == ord("[") else 1


# decoding


def _sampling(body: Body, api: Api) -> _Sampling:
    if api is not Api.GENERATE or body.sampling_params is NULL:
        return _NO_SAMPLING
    raw = body.sampling_params
    if memoryview(raw)[0] == ord("["):  # one for each prompt: the first stands for all
        raw = next(iter(elements(raw, "sampling_params")), NULL)
    found = decode_or(_Sampling, raw, None)
    return found if isinstance(found, _Sampling) else _Sampling()


def _sequences(body: Body, sampling: _Sampling, endpoint: Endpoint, kind: Kind, prompts: int) -> int:
    if endpoint.api is Api.IMAGES or endpoint.api is Api.AUDIO:
        return 1
    if not endpoint.samples or kind is Kind.IMAGE:
        return prompts
    each = max(
        1,
        count(body.n, "n") or 1,
        count(sampling.n, "n") or 1,
        count(body.best_of, "best_of") or 1,
        count(body.beam_width, "beam_width") or 1,
    )
    return min(prompts * each, LARGEST_COUNT)


def _limit(body: Body, sampling: _Sampling, api: Api) -> int | None:
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


def _generate_limit(body: Body, sampling: _Sampling) -> int | None:
    for raw in (sampling.max_new_tokens, sampling.max_tokens, body.max_new_tokens, body.max_tokens):
        if not is_null(raw):
            return count(raw, "max_tokens")
    sglang = body.text is not None or body.input_ids is not None
    return SGLANG_TOKENS if sglang else None


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

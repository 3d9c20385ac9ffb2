"""Where each endpoint keeps its prompt: the fields of a body that are walked, and the media beside them."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw

from ext_proc.parse.body import Body, decode_or, elements
from ext_proc.parse.conversation import read_batch, read_conversation
from ext_proc.parse.endpoint import Endpoint
from ext_proc.parse.prompt import Prompt
from ext_proc.parse.prompt_list import read_prompts
from ext_proc.parse.scalars import NULL, is_null
from ext_proc.parse.structure import fits
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.routing import Api, Media

_MEDIA_FIELDS: Final = {
    "image": Media.IMAGE,
    "images": Media.IMAGE,
    "init_images": Media.IMAGE,
    "image_data": Media.IMAGE,
    "audio_data": Media.AUDIO,
    "video_data": Media.VIDEO,
}
_MANY_TENSORS: Final = re.compile(rb"\[\s*\[\s*\[")
_FIELDS_OF_FILES: Final = {Api.IMAGES: Media.IMAGE, Api.AUDIO: Media.AUDIO}


def read_prompt(prompt: Prompt, body: Body, endpoint: Endpoint) -> int:
    """Walk whatever the endpoint calls its prompt; the number of prompts."""
    if body.messages is not None or endpoint.needs_messages:
        return _read_messages(prompt, body, endpoint)
    api = endpoint.api
    if api is Api.RESPONSES:
        return _read_responses(prompt, body)
    if api is Api.RERANK or api is Api.SCORE:
        return _read_pairs(prompt, body)
    texts = (body.prompt, body.input, body.inputs, body.text, body.texts)
    ids = (body.input_ids, body.token_ids, body.prompt_token_ids, body.tokens)
    value = next((value for value in (*texts, *ids) if value is not None), None)
    return _embedded_prompts(body) if value is None else read_prompts(prompt, value)


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
        read_conversation(prompt, body.system, tools, messages)
        return 1
    read_batch(prompt, body.system, tools, batch)
    return len(batch)


def _read_responses(prompt: Prompt, body: Body) -> int:
    text = type(body.input) is str
    read_conversation(prompt, body.instructions, (body.tools,), None if text else body.input)
    if text:
        read_prompts(prompt, body.input)
    return 1


def _read_pairs(prompt: Prompt, body: Body) -> int:
    """Each text of one side against the other's: as many pairs as the longer side has texts."""
    left = next((v for v in (body.query, body.queries, body.text_1, body.data_1) if v is not None), None)
    right = next((v for v in (body.documents, body.items, body.text_2, body.data_2) if v is not None), None)
    sides = [read_prompts(prompt, side) for side in (left, right) if side is not None]
    return max(sides, default=1)


def _embedded_prompts(body: Body) -> int:
    """Prompts that are sent as tensors: encoded, or as rows of numbers (SGLang), a list deeper where they are many."""
    raw = body.prompt_embeds
    if raw is NULL and body.input_embeds is not NULL:
        listed = _MANY_TENSORS.match(body.input_embeds) is not None and fits(bytes(body.input_embeds))
        return max(1, len(decode_or(list[Raw], body.input_embeds, []))) if listed else 1
    listed = raw is not NULL and memoryview(raw)[0] == ord("[")
    return max(1, len(elements(raw, "prompt_embeds"))) if listed else 1


def count_files(prompt: Prompt, body: Body, api: Api, files: int) -> None:
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

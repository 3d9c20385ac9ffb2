"""JSON bodies: one decode, unknown fields skipped unread.

Fields stay encoded (`Raw`) unless they hold the prompt; a base64 picture is stepped over, never copied. A prompt
that does not fit its type is no fault of the document: `careful` reads the body then.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.scalars import NULL
from ext_proc.parse.structure import outside_strings
from tidegate.domain.refusal import Reason, Refusal

MOST_ELEMENTS: Final = 10_000
"""Values in a list beside the prompt, such as pictures, those of its elements included."""


class Item(msgspec.Struct, gc=False):
    """A part of a message, an item of the Responses API, or a prompt that is an object: they nest."""

    role: Value = None
    type: Value = None
    content: Value = None
    text: Value = None
    output: Value = None
    thinking: Value = None
    refusal: Value = None
    summary: Value = None
    prompt_token_ids: Value = None
    uuid: Raw = NULL
    arguments: Raw = NULL
    input: Raw = NULL
    image_url: Raw = NULL
    image: Raw = NULL
    image_embeds: Raw = NULL
    image_pil: Raw = NULL
    input_audio: Raw = NULL
    audio_url: Raw = NULL
    audio_embeds: Raw = NULL
    audio: Raw = NULL
    video_url: Raw = NULL
    video: Raw = NULL
    video_embeds: Raw = NULL
    source: Raw = NULL
    file: Raw = NULL


class Message(msgspec.Struct, gc=False):
    """A message of a conversation. Far smaller than Item, since there may be ten thousand."""

    role: Value = None
    content: Value = None
    reasoning_content: Value = None
    reasoning: Value = None
    tool_calls: Raw = NULL
    function_call: Raw = NULL


Part = str | int | bool | Item | None
Value = str | int | bool | Item | list[str | int | bool | Item | list[Part] | None] | None
"""A prompt. No number with a fraction or an exponent stands in one: to read `1e300` takes 10 µs."""

Messages = list[str | int | bool | Message | list[str | int | bool | Message | None] | None] | str | int | bool | None
"""A list of messages, or of conversations."""


class Model:
    """The value of the key `model`, whatever its type."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


NO_MODEL: Final = Model(None)


class Body(msgspec.Struct, gc=False):
    """The fields of every endpoint. A form's fields are put into the same shape."""

    model: Model = NO_MODEL

    # prompts
    messages: Messages = None
    prompt: Value = None
    input: Value = None
    inputs: Value = None
    system: Value = None
    instructions: Value = None
    text: Value = None
    texts: Value = None
    input_ids: Value = None
    token_ids: Value = None
    prompt_token_ids: Value = None
    tokens: Value = None
    query: Value = None
    queries: Value = None
    documents: Value = None
    items: Value = None
    text_1: Value = None
    text_2: Value = None
    data_1: Value = None
    data_2: Value = None
    prompt_embeds: Raw = NULL
    input_embeds: Raw = NULL
    tools: Raw = NULL
    functions: Raw = NULL

    # decoding
    stream: Raw = NULL
    n: Raw = NULL
    best_of: Raw = NULL
    beam_width: Raw = NULL
    max_tokens: Raw = NULL
    max_completion_tokens: Raw = NULL
    max_output_tokens: Raw = NULL
    max_new_tokens: Raw = NULL
    sampling_params: Raw = NULL
    parameters: Raw = NULL
    priority: Raw = NULL

    # affinity
    user: Raw = NULL
    safety_identifier: Raw = NULL
    metadata: Raw = NULL
    cache_salt: Raw = NULL
    prompt_cache_key: Raw = NULL
    previous_response_id: Raw = NULL
    session_id: Raw = NULL
    session_params: Raw = NULL

    # pictures and adapters
    size: Raw = NULL
    width: Raw = NULL
    height: Raw = NULL
    steps: Raw = NULL
    num_inference_steps: Raw = NULL
    num_outputs_per_prompt: Raw = NULL
    batch_size: Raw = NULL
    n_iter: Raw = NULL
    image: Raw = NULL
    images: Raw = NULL
    init_images: Raw = NULL
    image_data: Raw = NULL
    audio_data: Raw = NULL
    video_data: Raw = NULL
    lora: Raw = NULL
    loras: Raw = NULL
    lora_path: Raw = NULL
    lora_request: Raw = NULL
    extra_body: Raw = NULL
    override_settings: Raw = NULL


PROMPTS: Final = {
    "messages": Messages,
    **dict.fromkeys(("prompt", "input", "inputs", "system", "instructions", "text", "texts"), Value),
    **dict.fromkeys(("input_ids", "token_ids", "prompt_token_ids", "tokens", "query", "queries", "documents"), Value),
    **dict.fromkeys(("items", "text_1", "text_2", "data_1", "data_2"), Value),
}
"""The fields of `Body` that are decoded at once, and the type of each."""


class Reader(threading.local):
    """A decoder that sees the key `model` twice when it stands twice, escaped or not."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self._seen = False
        self._decode = msgspec.json.Decoder(kind, dec_hook=self._model, float_hook=_no_model).decode

    def read(self, body: bytes) -> Any:
        """`body` as `kind`. Raises Refusal (invalid-request) for a second `model`, and what msgspec raises."""
        self._seen = False
        return self._decode(body)

    def _model(self, _: type, value: object) -> Model:
        if self._seen:
            raise Refusal(Reason.INVALID_REQUEST, "The body names `model` twice.", param="model")
        self._seen = True
        return Model(value)


def _no_model(_: str) -> float:
    """The only floats that a body is decoded with stand under `model`."""
    raise Refusal(Reason.INVALID_REQUEST, "`model` must be a string.", param="model")


def broken(exc: Exception, body: bytes = b"") -> Refusal:
    """The refusal for bytes that are no JSON."""
    if not body.strip():
        return Refusal(Reason.INVALID_JSON, "The body is empty.")
    if isinstance(exc, UnicodeDecodeError) or "UTF-8" in str(exc):
        return Refusal(Reason.INVALID_JSON, "The body must be UTF-8.")
    fault = str(exc).removeprefix("JSON is malformed: ")
    return Refusal(Reason.INVALID_JSON, f"The body is not valid JSON: {fault[:1].lower()}{fault[1:]}.")


def decode_or(kind: Any, raw: Raw | bytes, default: Any) -> Any:
    """`raw` as `kind`, or `default` when it is something else."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return default


def elements(raw: Raw, name: str) -> list[Raw]:
    """The elements of a list. Raises Refusal (invalid-request) when they are far too many."""
    text = bytes(raw)
    if text.count(b",") >= MOST_ELEMENTS and outside_strings(text)[1] >= MOST_ELEMENTS:
        raise Refusal(Reason.INVALID_REQUEST, f"`{name}` has more than {MOST_ELEMENTS} values.", param=name)
    found: list[Raw] = decode_or(list[Raw], raw, [])
    return found

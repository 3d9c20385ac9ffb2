"""JSON bodies: one decode, unknown fields skipped unread.

Every field takes every JSON type, so that a wrong type in one field is that field's fault, not the document's.
Fields stay encoded (`Raw`) unless they hold the prompt; a base64 picture is stepped over, never copied.
"""

from __future__ import annotations

import re
import threading
from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.scalars import NULL
from ext_proc.parse.surrogates import with_paired_surrogates
from tidegate.domain.refusal import Reason, Refusal

LARGEST_STRUCTURE: Final = 200_000
"""Lists and objects that a body may hold: decoded, one takes some 200 bytes; written as `{},` it takes three."""

MOST_ELEMENTS: Final = 10_000
"""Elements of a list beside the prompt, such as pictures."""

_RARE: Final = 10_000
_BOM: Final = b"\xef\xbb\xbf"
_QUOTED: Final = re.compile(rb'"[^"]*+"?')
_NO_STRUCTURE: Final = bytes(set(range(256)) - set(b'"{['))
_MOST_SURROGATES: Final = 30_000  # escapes of surrogates in a body that is worth a second look


class Item(msgspec.Struct, gc=False):
    """A part of a message, an item of the Responses API, or a prompt that is an object: they nest."""

    role: Value = None
    type: Value = None
    content: Value = None
    text: Value = None
    output: Value = None
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
    tool_calls: Raw = NULL
    function_call: Raw = NULL


Turn = str | int | float | bool | Message | list[Raw] | None
Part = str | int | float | bool | Item | list[Raw] | None
Value = str | int | float | bool | Item | list[str | int | float | bool | Item | list[Part] | None] | None
"""Any JSON value, down to where a prompt can stand."""

Messages = str | int | float | bool | Message | list[str | int | float | bool | Message | list[Turn] | None] | None
"""Any JSON value that should be a list of messages, or of conversations."""


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
    system: Value = None
    instructions: Value = None
    text: Value = None
    texts: Value = None
    input_ids: Value = None
    token_ids: Value = None
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


class _Reader(threading.local):
    """A decoder that sees the key `model` twice when it stands twice, escaped or not."""

    def __init__(self) -> None:
        self._seen = False
        self._decode = msgspec.json.Decoder(Body, dec_hook=self._model).decode

    def read(self, body: bytes) -> Body:
        self._seen = False
        return self._decode(body)

    def _model(self, _: type, value: object) -> Model:
        if self._seen:
            raise Refusal(Reason.INVALID_REQUEST, "The body names `model` twice.", param="model")
        self._seen = True
        return Model(value)


_reader: Final = _Reader()


def read_json(body: bytes) -> Body:
    """Decode `body`. Raises Refusal: invalid-json, or invalid-request for a second `model`."""
    body = body.removeprefix(_BOM)
    _check_structure(body)
    try:
        return _reader.read(body)
    except msgspec.ValidationError as exc:
        raise _unfit(exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if not 0 < body.count(b"\\ud") + body.count(b"\\uD") <= _MOST_SURROGATES:
            raise broken(exc, body) from exc
        return _read_again(body)
    except RecursionError as exc:
        raise Refusal(Reason.INVALID_JSON, "The body is nested too deeply.") from exc


def _read_again(body: bytes) -> Body:
    try:
        return _reader.read(with_paired_surrogates(body))
    except msgspec.ValidationError as exc:
        raise _unfit(exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise broken(exc, body) from exc
    except RecursionError as exc:
        raise Refusal(Reason.INVALID_JSON, "The body is nested too deeply.") from exc


def _check_structure(body: bytes) -> None:
    if len(body) <= 3 * LARGEST_STRUCTURE or (_few(body, b"{") and _few(body, b"[")):
        return
    if _brackets(body) > LARGEST_STRUCTURE and _brackets(_unquoted(body)) > LARGEST_STRUCTURE:
        message = f"The body has more than {LARGEST_STRUCTURE} lists and objects."
        raise Refusal(Reason.INVALID_REQUEST, message)


def _few(body: bytes, bracket: bytes) -> bool:
    """Whether `bracket` is rare: `find` looks for one byte ten times as fast as `count` does, between two of them."""
    at = body.find(bracket)
    for _ in range(_RARE):
        if at < 0:
            return True
        at = body.find(bracket, at + 1)
    return False


def _unquoted(body: bytes) -> bytes:
    """The brackets of `body` that stand in no string.

    Where two quotes meet, a string without brackets ends or two strings do: without the pair, what stands inside a
    string and what does not stay as they are.
    """
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_STRUCTURE)
    return _QUOTED.sub(b"", bare.replace(b'""', b""))


def _brackets(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _unfit(exc: msgspec.ValidationError) -> Refusal:
    if "out of range" in str(exc):
        return Refusal(Reason.INVALID_REQUEST, "The body holds a number that is too large.")
    return Refusal(Reason.INVALID_JSON, "The body must be a JSON object.")


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
    if bytes(raw).count(b",") > MOST_ELEMENTS:
        raise Refusal(Reason.INVALID_REQUEST, f"`{name}` has too many elements.", param=name)
    found: list[Raw] = decode_or(list[Raw], raw, [])
    return found

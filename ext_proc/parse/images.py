"""What a diffusion request costs, and the LoRA adapters that a body asks for."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Body, decode_or, elements
from ext_proc.parse.scalars import NULL, count, is_null, string
from tidegate.domain.request import LARGEST_COUNT, ImageDemand

_SIZE: Final = re.compile(r"\s*([0-9]{1,6})\s*[xX×*]\s*([0-9]{1,6})\s*")
_LONGEST_SIZE: Final = 64
_PROMPT_LORA: Final = re.compile(r"<lora:([^:<>]{1,256})(?::[^<>]{0,64})?>")
_MOST_LORAS: Final = 64


class Extra(msgspec.Struct, gc=False):
    """`extra_body`, which some clients send literally instead of merging it."""

    size: Raw = NULL
    width: Raw = NULL
    height: Raw = NULL
    steps: Raw = NULL
    num_inference_steps: Raw = NULL
    num_outputs_per_prompt: Raw = NULL
    lora: Raw = NULL
    loras: Raw = NULL
    lora_path: Raw = NULL
    lora_request: Raw = NULL


class _Adapter(msgspec.Struct, gc=False):
    """A LoRA adapter as an object."""

    name: Raw = NULL
    lora_name: Raw = NULL
    path: Raw = NULL
    lora_path: Raw = NULL


def extra_of(body: Body) -> Extra | None:
    """The extra body, if there is one."""
    found = None if body.extra_body is NULL else decode_or(Extra, body.extra_body, None)
    return found if isinstance(found, Extra) else None


def asks_for_diffusion(body: Body, extra: Extra | None) -> bool:
    """Whether a chat is one with a diffusion model: it names denoising steps, or a width and a height."""
    return _names_diffusion(body) or (extra is not None and _names_diffusion(extra))


def _names_diffusion(fields: Body | Extra) -> bool:
    if fields.num_inference_steps is fields.width is NULL:
        return False
    if not is_null(fields.num_inference_steps):
        return True
    return not (is_null(fields.width) or is_null(fields.height))


def image_demand(body: Body, extra: Extra | None, prompts: int) -> ImageDemand:
    """Size, steps and pictures of `body`; its own fields win over those of `extra`."""
    width, height = _size(_first(body, extra, "size"))
    steps = _number(body, extra, "num_inference_steps")
    return ImageDemand(
        width=_number(body, extra, "width") or width,
        height=_number(body, extra, "height") or height,
        steps=steps if steps is not None else _number(body, extra, "steps"),
        images=_images(body, extra, prompts),
    )


def _images(body: Body, extra: Extra | None, prompts: int) -> int:
    factors = (
        count(body.n, "n"),
        _number(body, extra, "num_outputs_per_prompt"),
        count(body.batch_size, "batch_size"),
        count(body.n_iter, "n_iter"),
    )
    images = prompts
    for factor in factors:
        images *= factor or 1
    return min(images, LARGEST_COUNT)


def _size(raw: Raw) -> tuple[int | None, int | None]:
    text = string(raw) or ""
    found = _SIZE.fullmatch(text) if len(text) <= _LONGEST_SIZE else None
    return (int(found[1]), int(found[2])) if found else (None, None)


def _first(body: Body, extra: Extra | None, name: str) -> Raw:
    own: Raw = getattr(body, name)
    if not is_null(own) or extra is None:
        return own
    further: Raw = getattr(extra, name)
    return further


def _number(body: Body, extra: Extra | None, name: str) -> int | None:
    return count(_first(body, extra, name), name)


def loras_of(body: Body, extra: Extra | None) -> tuple[str, ...]:
    """The names of adapters: `lora`, `loras` or `lora_request` (object, list or name), SGLang's `lora_path`."""
    if extra is None and body.lora is body.loras is body.lora_request is body.lora_path is NULL:
        return ()
    names: list[str] = []
    for name in ("lora", "loras", "lora_request", "lora_path"):
        raw = _first(body, extra, name)
        if not is_null(raw):
            names.extend(_adapters(raw, name))
    return tuple(dict.fromkeys(names))[:_MOST_LORAS]


def loras_in_prompt(prompt: Any) -> tuple[str, ...]:
    """The adapters of a web UI's prompt: `a cup <lora:style-a:0.8>`."""
    if not isinstance(prompt, str) or "<lora:" not in prompt:
        return ()
    return tuple(dict.fromkeys(_PROMPT_LORA.findall(prompt)))[:_MOST_LORAS]


def _adapters(raw: Raw, name: str) -> list[str]:
    if memoryview(raw)[0] == ord("["):
        return [name for element in elements(raw, name)[:_MOST_LORAS] for name in _adapter(element)]
    return _adapter(raw)


def _adapter(raw: Raw) -> list[str]:
    name = string(raw)
    if name is None and memoryview(raw)[0] == ord("{"):
        fields = decode_or(_Adapter, raw, _Adapter())
        candidates = (fields.name, fields.lora_name, fields.path, fields.lora_path)
        name = next((found for field in candidates if (found := string(field))), None)
    return [] if name is None else [name]

"""Tools and calls of tools: JSON that is rendered into the prompt, counted by its bytes."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from ext_proc.parse.allowance import MOST_TOOLS, too_much
from ext_proc.parse.body import decode_or
from ext_proc.parse.structure import fits

CACHE_CONTROL: Final = b'"cache_control"'
_LARGEST_MARKED: Final = 1 << 16


class _Tool(msgspec.Struct, gc=False):
    """An object, unread: to count the tools of a long list."""


def listed_tools(raw: Raw) -> list[Raw]:
    """The tools of a list; none of what is no list of objects. Raises Refusal when they are too many to be decoded."""
    if bytes(raw).count(b",") >= MOST_TOOLS:
        if not fits(bytes(raw)) or len(decode_or(list[_Tool], raw, [])) > MOST_TOOLS:
            raise too_much()
        if not decode_or(list[_Tool], raw, []):
            return []
    found: list[Raw] = decode_or(list[Raw], raw, [])
    return found


def without_cache_control(data: bytes) -> bytes:
    """A tool without the mark that clients move from tool to tool."""
    if len(data) > _LARGEST_MARKED or CACHE_CONTROL not in data:
        return data
    fields = decode_or(dict[str, Raw], data, None)
    if not isinstance(fields, dict):
        return data
    fields.pop("cache_control", None)
    return b"\0".join(part for key, raw in fields.items() for part in (key.encode(), bytes(raw)))

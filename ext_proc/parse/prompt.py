"""What a prompt holds, counted and fingerprinted in one walk: text, token ids, media parts, calls of tools.

`conversation` and `prompt_list` say in which order an API's prompt is walked; this says what each value in it counts.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

from msgspec import Raw

from ext_proc.parse.allowance import (
    CALL_COST,
    DOCUMENT_COST,
    MEDIA_COST,
    MOST_PROMPTS,
    NESTED_COST,
    PART_COST,
    too_much,
)
from ext_proc.parse.body import Item
from ext_proc.parse.fingerprint import Chain
from ext_proc.parse.media import MEDIA_TYPES, document_of, holds_media, media_of
from ext_proc.parse.scalars import NULL, is_null, string
from ext_proc.parse.tools import without_cache_control
from tidegate.domain.routing import Media

_DEEPEST: Final = 4
"""A message holds parts, a part (a tool's result) holds parts; nothing that an engine reads lies deeper."""
_MOST_UUIDS: Final = 256
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})


class Prompt:
    """Counts of what was read so far. `chain` is None where no fingerprint is wanted."""

    __slots__ = ("_left", "chain", "chars", "media", "token_ids", "tool_bytes", "tools", "uuids")

    def __init__(self, chain: Chain | None) -> None:
        self.chain = chain
        self._left = MOST_PROMPTS
        self.chars = 0
        self.token_ids: int | None = None
        self.tools = self.tool_bytes = 0
        self.media: dict[Media, int] = {}
        self.uuids: list[str] = []

    def spend(self, parts: int) -> None:
        """Take `parts` of the allowance. Raises Refusal (invalid-request) when none is left."""
        self._left -= parts
        if self._left < 0:
            raise too_much()

    def begin(self, role: Any) -> None:
        """A message of `role` follows."""
        if self.chain is not None:
            self.chain.begin(role)

    def end(self) -> None:
        """A message is complete."""
        if self.chain is not None:
            self.chain.end()

    def text(self, text: str) -> None:
        """A text."""
        self.chars += len(text)
        if self.chain is not None:
            self.chain.text(text)

    def ids(self, ids: array[int]) -> None:
        """Token ids of one prompt."""
        self.token_ids = (self.token_ids or 0) + len(ids)
        if self.chain is not None:
            self.chain.ids(ids.tobytes())

    def value(self, value: Any, depth: int = 0) -> None:
        """Anything that can stand for a prompt or a content."""
        kind = type(value)
        if kind is str:
            self.text(value)
        elif kind is Item:
            self.item(value, depth)
        elif kind is list and depth < _DEEPEST:
            self.spend(PART_COST * len(value))
            for element in value:
                kind = type(element)
                if kind is Item:
                    self.item(element, depth + 1)
                elif kind is str:
                    self.text(element)

    def item(self, item: Item, depth: int) -> None:
        """A part of a message, an item of the Responses API, or a prompt that is an object."""
        kind = item.type
        if type(item.text) is str:
            self.text(item.text)
            if kind is None:
                return
        if type(kind) is str and kind in _TEXT_TYPES:
            return
        if item.content is not None:
            self.spend(NESTED_COST)
            self.value(item.content, depth + 1)
        if not (item.output is item.thinking is item.summary is item.refusal is None):
            self._beside_content(item, depth + 1)
        if not (item.arguments is item.input is NULL):
            self.calls(item.arguments, item.input)
        if kind in MEDIA_TYPES if type(kind) is str else item.uuid is not NULL or holds_media(item):
            self._media_or_document(item, depth)

    def calls(self, *calls: Raw) -> None:
        """Calls of tools, as JSON."""
        for raw in calls:
            if not is_null(raw):
                self.spend(CALL_COST)
                data = bytes(raw)
                self.tool_bytes += len(data)
                if self.chain is not None:
                    self.chain.whole(without_cache_control(data), len(data))

    def _beside_content(self, item: Item, depth: int) -> None:
        """What a model thought, what it declined, and what a tool gave back."""
        for value in (item.thinking, item.summary, item.refusal, item.output):
            self.value(value, depth)

    def _media_or_document(self, item: Item, depth: int) -> None:
        """A document is read where it is text; a file in base64 or at a URL is fingerprinted whole."""
        source = document_of(item)
        if source is None or (source.content is None and string(source.type) != "text"):
            self._media(item)
        elif source.content is not None:
            self.value(source.content, depth + 1)
        else:
            self.spend(DOCUMENT_COST)
            self.text(string(source.data) or "")

    def _media(self, item: Item) -> None:
        media, data = media_of(item)
        if media is not None:
            self.spend(MEDIA_COST)
            self.media[media] = self.media.get(media, 0) + 1
        uuid = None if item.uuid is NULL else string(item.uuid)
        if uuid is not None and len(self.uuids) < _MOST_UUIDS:
            self.uuids.append(uuid)
        if self.chain is None:
            return
        if uuid is not None:
            self.chain.whole(uuid.encode())
        elif data is not NULL:
            self.chain.whole(memoryview(data))

"""A prompt, in one walk: its text, token ids, media parts and tools are counted and fingerprinted."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Item, Message, decode_or
from ext_proc.parse.fingerprint import Chain, without_attribution
from ext_proc.parse.scalars import NULL, is_null, string
from ext_proc.parse.structure import fits
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import LARGEST_COUNT
from tidegate.domain.routing import Media

_DEEPEST: Final = 4
"""A message holds parts, a part (a tool's result) holds parts; nothing that an engine reads lies deeper."""

MOST_PARTS: Final = 40_000
MOST_PROMPTS: Final = 120_000
MOST_TOOLS: Final = 20_000
"""Messages and parts, prompts, or tools that a request may have; a walk over them takes some 30 ms.

They share one allowance, in which each costs what it takes to read: half as many tools leave half as many prompts.
"""

_PART_COST: Final = MOST_PROMPTS // MOST_PARTS
_TOOL_COST: Final = MOST_PROMPTS // MOST_TOOLS
_CONVERSATION_COST: Final = 8
_CALL_COST: Final = 8
_NESTED_COST: Final = 2
_DOCUMENT_COST: Final = 12
_MEDIA_COST: Final = 24

_MOST_UUIDS: Final = 256
_SYSTEM: Final = frozenset({"system", "developer"})
_CACHE_CONTROL: Final = b'"cache_control"'
_LARGEST_MARKED: Final = 1 << 16

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_MESSAGE_TYPES: Final = (None, "message")
_MEDIA_FIELDS: Final = {
    Media.IMAGE: ("image_url", "image", "image_embeds", "image_pil"),
    Media.AUDIO: ("input_audio", "audio_url", "audio_embeds", "audio"),
    Media.VIDEO: ("video_url", "video", "video_embeds"),
}
_MEDIA_TYPES: Final = {
    **{field: (media, field) for media, fields in _MEDIA_FIELDS.items() for field in fields},
    "image": (Media.IMAGE, "source"),
    "input_image": (Media.IMAGE, "image_url"),
    "input_video": (Media.VIDEO, "video_url"),
    "document": (None, "source"),
    "file": (None, "file"),
    "input_file": (None, "file"),
}
"""By the type of a part: its kind, and the field that holds it. Documents are no medium of their own."""


class _Tool(msgspec.Struct, gc=False):
    """An object, unread: to count the tools of a long list."""


class _Source(msgspec.Struct, gc=False):
    """What a document holds: its text, or its blocks."""

    type: Raw = NULL
    data: Raw = NULL
    content: str | list[Item] | None = None


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

    # conversations

    def batch(self, conversations: int) -> None:
        """Several conversations follow."""
        self._spend(_CONVERSATION_COST * conversations)

    def conversation(self, system: tuple[Any, ...], tools: tuple[Raw, ...], messages: Any) -> None:
        """One conversation: system texts, tools, messages. Leading system messages come before the tools."""
        turns = messages if type(messages) is list else []
        self._spend(_PART_COST * len(turns))
        head = _system_messages(turns)
        self._begin("system")
        for value in system:
            self._system(value)
        for turn in turns[:head]:
            self._system(turn.content)
        self._end()
        for raw in tools:
            self._tools(raw)
        self._turns(turns[head:] if head else turns)

    def _turns(self, turns: list[Any]) -> None:
        for turn in turns:
            kind = type(turn)
            if kind is Message:
                self._message(turn)
            elif kind is Item:
                self._turn(turn)

    def _turn(self, item: Item) -> None:
        """An item of the Responses API."""
        content = item.content
        if type(content) is str and item.role is not None and item.type in _MESSAGE_TYPES:
            self.chars += len(content)
            if self.chain is not None:
                self.chain.message(item.role, content)
            return
        self._begin(item.role)
        self._item(item, 0)
        self._end()

    def _message(self, message: Message) -> None:
        content, chain = message.content, self.chain
        reasoning = message.reasoning if message.reasoning_content is None else message.reasoning_content
        if type(content) is str and reasoning is None and message.tool_calls is message.function_call is NULL:
            self.chars += len(content)
            if chain is not None:
                chain.message(message.role, content)
            return
        self._begin(message.role)
        if reasoning is not None:
            self.value(reasoning)
        if content is not None:
            self.value(content)
        if not (message.tool_calls is message.function_call is NULL):
            self._calls(message.tool_calls, message.function_call)
        self._end()

    def _system(self, value: Any) -> None:
        """A system text, or its blocks, without the lines that change with every request."""
        listed = type(value) is list
        self._spend(_PART_COST * len(value) if listed else 0)
        for block in value if listed else (value,):
            text = block.text if type(block) is Item else block
            if type(text) is str:
                self.chars += len(text)
                kept = without_attribution(text)
                if kept and self.chain is not None:
                    self.chain.text(kept)

    def _tools(self, raw: Raw) -> None:
        if is_null(raw):
            return
        tools = _listed_tools(raw)
        self._spend(_TOOL_COST * len(tools))
        self.tools += len(tools)
        marked = _CACHE_CONTROL in bytes(raw)
        for tool in tools:
            data = bytes(tool)
            self.tool_bytes += len(data)
            if self.chain is not None:
                self.chain.tool(_without_cache_control(data) if marked else data)

    # values

    def value(self, value: Any, depth: int = 0) -> None:
        """Anything that can stand for a prompt or a content."""
        kind = type(value)
        if kind is str:
            self._text(value)
        elif kind is Item:
            self._item(value, depth)
        elif kind is list and depth < _DEEPEST:
            self._spend(_PART_COST * len(value))
            for element in value:
                kind = type(element)
                if kind is Item:
                    self._item(element, depth + 1)
                elif kind is str:
                    self._text(element)

    def _text(self, text: str) -> None:
        self.chars += len(text)
        if self.chain is not None:
            self.chain.text(text)

    def _item(self, item: Item, depth: int) -> None:
        kind = item.type
        if type(item.text) is str:
            self._text(item.text)
            if kind is None:
                return
        if type(kind) is str and kind in _TEXT_TYPES:
            return
        if item.content is not None:
            self._spend(_NESTED_COST)
            self.value(item.content, depth + 1)
        if not (item.output is item.thinking is item.summary is item.refusal is None):
            self._beside_content(item, depth + 1)
        if not (item.arguments is item.input is NULL):
            self._calls(item.arguments, item.input)
        if kind in _MEDIA_TYPES if type(kind) is str else item.uuid is not NULL or _holds_media(item):
            self._media_or_document(item, depth)

    def _beside_content(self, item: Item, depth: int) -> None:
        """What a model thought, what it declined, and what a tool gave back."""
        for value in (item.thinking, item.summary, item.refusal, item.output):
            self.value(value, depth)

    def _calls(self, *calls: Raw) -> None:
        for raw in calls:
            if not is_null(raw):
                self._tool_json(raw)

    def _media_or_document(self, item: Item, depth: int) -> None:
        """A document is read where it is text; a file in base64 or at a URL is fingerprinted whole."""
        source = _source(item.source) if item.type == "document" and item.source is not NULL else None
        if source is None or (source.content is None and string(source.type) != "text"):
            self._media(item)
        elif source.content is not None:
            self.value(source.content, depth + 1)
        else:
            self._spend(_DOCUMENT_COST)
            self._text(string(source.data) or "")

    def _media(self, item: Item) -> None:
        media, data = _media_of(item)
        if media is not None:
            self._spend(_MEDIA_COST)
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

    def _tool_json(self, raw: Raw) -> None:
        self._spend(_CALL_COST)
        data = bytes(raw)
        self.tool_bytes += len(data)
        if self.chain is not None:
            self.chain.whole(_without_cache_control(data))

    # lists of prompts

    def ids(self, ids: array[int]) -> None:
        """Token ids of one prompt."""
        self.token_ids = (self.token_ids or 0) + len(ids)
        if self.chain is not None:
            self.chain.data(ids.tobytes())

    def prompts(self, value: Any) -> int:
        """A prompt or a list of prompts, each of text, token ids or an object; how many there are, at least 1.

        Only the first is fingerprinted.
        """
        ids = _ids(value)
        if ids is None and type(value) is list:
            return max(1, self._each(value))
        if ids is not None:
            self.ids(ids)
        elif type(value) is Item:
            self._object(value)
        else:
            self.value(value)
        self._end()
        return 1

    def _each(self, prompts: list[Any]) -> int:
        self._spend(len(prompts))
        chain, rest = self.chain, iter(prompts)
        if not any(map(self._one, rest)):
            return 0
        self._end()
        self.chain = None
        found = 1 + self._others(rest)
        self.chain = chain
        return found

    def _one(self, prompt: Any) -> bool:
        """One prompt of many; whether it is one."""
        kind = type(prompt)
        if kind is str:
            self._text(prompt)
        elif kind is Item:
            self._object(prompt)
        elif kind is not list:
            return False
        elif (ids := _ids(prompt)) is not None:
            self.ids(ids)
        else:
            self._spend(_PART_COST - 1)
            self.value(prompt)
        return True

    def _others(self, prompts: Iterator[Any]) -> int:
        """The prompts after the first, which are counted alone; a hundred thousand texts take 10 ms."""
        chars = ids = found = 0
        for prompt in prompts:
            kind = type(prompt)
            if kind is str:
                chars += len(prompt)
            elif kind is Item:
                if prompt.type is None and type(prompt.text) is str:
                    chars += len(prompt.text)
                else:
                    self._object(prompt)
            elif kind is list and (length := _count_ids(prompt)):
                ids += length
            elif not self._one(prompt):
                continue
            found += 1
        self.chars += chars
        if ids:
            self.token_ids = (self.token_ids or 0) + ids
        return found

    def _object(self, prompt: Item) -> None:
        self._spend(_PART_COST - 1)
        if prompt.prompt_token_ids is None:
            self._item(prompt, 0)
            return
        ids = _ids(prompt.prompt_token_ids)
        if ids is not None:
            self.ids(ids)

    # limits and marks

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise _too_much()

    def _begin(self, role: Any) -> None:
        if self.chain is not None:
            self.chain.begin(role)

    def _end(self) -> None:
        if self.chain is not None:
            self.chain.end()


_decode_source: Final = msgspec.json.Decoder(_Source).decode


def _source(raw: Raw) -> _Source | None:
    try:
        return _decode_source(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _listed_tools(raw: Raw) -> list[Raw]:
    """The tools of a list; none of what is no list of objects. Raises Refusal when they are too many to be decoded."""
    if bytes(raw).count(b",") >= MOST_TOOLS:
        if not fits(bytes(raw)) or len(decode_or(list[_Tool], raw, [])) > MOST_TOOLS:
            raise _too_much()
        if not decode_or(list[_Tool], raw, []):
            return []
    found: list[Raw] = decode_or(list[Raw], raw, [])
    return found


def _too_much() -> Refusal:
    message = (
        f"The body has too many messages, parts, prompts or tools: at most {MOST_PARTS} messages and parts, "
        f"{MOST_PROMPTS} prompts or {MOST_TOOLS} tools are read, and fewer of each where they come together."
    )
    return Refusal(Reason.INVALID_REQUEST, message)


def _ids(value: Any) -> array[int] | None:
    """A list of nothing but whole numbers; one beyond 64 bits is no token, and reads as 0."""
    if type(value) is not list or not value or type(value[0]) is not int:
        return None
    try:
        return array("q", value)
    except TypeError:
        return None
    except OverflowError:
        small = [number if abs(number) <= LARGEST_COUNT else 0 for number in value if type(number) is int]
        return array("q", small) if len(small) == len(value) else None


def _count_ids(value: list[Any]) -> int:
    """How many token ids a list holds that begins and ends with one; 0 for any other list."""
    return len(value) if value and type(value[0]) is type(value[-1]) is int else 0


def _system_messages(turns: list[Any]) -> int:
    """How many messages at the head of a conversation are the system's."""
    for at, turn in enumerate(turns):
        role = turn.role if type(turn) in {Message, Item} else None
        if type(role) is not str or role not in _SYSTEM:
            return at
    return len(turns)


def _media_of(item: Item) -> tuple[Media | None, Raw]:
    """The kind and the data of a part: by its type, or by its fields where it has no type."""
    if type(item.type) is str:
        media, field = _MEDIA_TYPES.get(item.type, (None, ""))
        return media, getattr(item, field, NULL)
    for media, fields in _MEDIA_FIELDS.items() if _holds_media(item) else ():
        for field in fields:
            data: Raw = getattr(item, field)
            if data is not NULL:
                return media, data
    return None, NULL


def _holds_media(item: Item) -> bool:
    picture = not (item.image_url is item.image is item.image_embeds is item.image_pil is NULL)
    sound = not (item.input_audio is item.audio_url is item.audio_embeds is item.audio is NULL)
    return picture or sound or not (item.video_url is item.video is item.video_embeds is NULL)


def _without_cache_control(data: bytes) -> bytes:
    """A tool without the mark that clients move from tool to tool."""
    if len(data) > _LARGEST_MARKED or _CACHE_CONTROL not in data:
        return data
    fields = decode_or(dict[str, Raw], data, None)
    if not isinstance(fields, dict):
        return data
    fields.pop("cache_control", None)
    return b"\0".join(part for key, raw in fields.items() for part in (key.encode(), bytes(raw)))

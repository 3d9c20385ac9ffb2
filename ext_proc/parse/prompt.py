"""A prompt, in one walk: its text, token ids, media parts and tools are counted and fingerprinted."""

from __future__ import annotations

from array import array
from typing import Any, Final

from msgspec import Raw

from ext_proc.parse.body import Item, decode_or
from ext_proc.parse.fingerprint import Chain, without_attribution
from ext_proc.parse.scalars import NULL, is_null, string
from tidegate.domain.routing import Media

_DEEPEST: Final = 4
"""A message holds parts, a part (a tool's result) holds parts; nothing that an engine reads lies deeper."""

_MOST_UUIDS: Final = 256
_SYSTEM: Final = frozenset({"system", "developer"})
_CACHE_CONTROL: Final = b'"cache_control"'

_MEDIA_TYPES: Final = {
    "image": Media.IMAGE,
    "image_url": Media.IMAGE,
    "image_pil": Media.IMAGE,
    "image_embeds": Media.IMAGE,
    "input_image": Media.IMAGE,
    "audio": Media.AUDIO,
    "audio_url": Media.AUDIO,
    "audio_embeds": Media.AUDIO,
    "input_audio": Media.AUDIO,
    "video": Media.VIDEO,
    "video_url": Media.VIDEO,
    "video_embeds": Media.VIDEO,
    "input_video": Media.VIDEO,
}
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})


class Prompt:
    """Counts of what was read so far. `chain` is None where no fingerprint is wanted."""

    __slots__ = ("chain", "chars", "media", "token_ids", "tool_bytes", "tools", "uuids")

    def __init__(self, chain: Chain | None) -> None:
        self.chain = chain
        self.chars = 0
        self.token_ids: int | None = None
        self.tools = self.tool_bytes = 0
        self.media: dict[Media, int] = {}
        self.uuids: list[str] = []

    # conversations

    def conversation(self, system: tuple[Any, ...], tools: tuple[Raw, ...], messages: Any) -> None:
        """One conversation: system texts, tools, messages. Leading system messages come before the tools."""
        head = _system_messages(messages) if type(messages) is list else 0
        self._begin("system")
        for value in system:
            self._system(value)
        for message in messages[:head] if head else ():
            self._system(message.content)
        self._end()
        for raw in tools:
            self._tools(raw)
        if type(messages) is list:
            self._messages(messages[head:] if head else messages)

    def _messages(self, messages: list[Any]) -> None:
        for message in messages:
            if type(message) is Item:
                role = message.role
                self._begin(role if type(role) is str else "")
                self._item(message, 0)
                self._end()

    def _system(self, value: Any) -> None:
        """A system text, or its blocks, without the lines that change with every request."""
        for block in value if type(value) is list else (value,):
            text = block.text if type(block) is Item else block
            if type(text) is str:
                self.chars += len(text)
                if self.chain is not None:
                    self.chain.text(without_attribution(text))

    def _tools(self, raw: Raw) -> None:
        if is_null(raw):
            return
        for tool in decode_or(list[Raw], raw, []):
            self.tools += 1
            self._begin("tools")
            self._tool_json(tool)
            self._end()

    # values

    def value(self, value: Any, depth: int = 0) -> None:
        """Anything that can stand for a prompt or a content."""
        if type(value) is str:
            self._text(value)
        elif type(value) is Item:
            self._item(value, depth)
        elif type(value) is list and depth < _DEEPEST:
            for element in value:
                if type(element) is Item:
                    self._item(element, depth + 1)
                elif type(element) is str:
                    self._text(element)

    def _text(self, text: str) -> None:
        self.chars += len(text)
        if self.chain is not None:
            self.chain.text(text)

    def _item(self, item: Item, depth: int) -> None:
        content = item.content
        if content is not None:
            self.value(content, depth + 1)
        if type(item.text) is str:
            self._text(item.text)
        kind = item.type
        if kind is None or (type(kind) is str and kind not in _TEXT_TYPES):
            self._other(item, depth)

    def _other(self, item: Item, depth: int) -> None:
        """What is not plain text: media, tool calls and their results."""
        if item.output is not None:
            self.value(item.output, depth + 1)
        for raw in (item.tool_calls, item.function_call, item.arguments, item.input):
            if raw is not NULL and not is_null(raw):
                self._tool_json(raw)
        self._media(item)

    def _media(self, item: Item) -> None:
        kind, data = _media_of(item)
        if kind is not None:
            self.media[kind] = self.media.get(kind, 0) + 1
        uuid = string(item.uuid) if item.uuid is not NULL else None
        if uuid is not None and kind is not None and len(self.uuids) < _MOST_UUIDS:
            self.uuids.append(uuid)
        if self.chain is None:
            return
        if uuid is not None:
            self.chain.whole(uuid.encode())
        elif data is not None:
            self.chain.whole(memoryview(data))

    def _tool_json(self, raw: Raw) -> None:
        data = bytes(raw)
        self.tool_bytes += len(data)
        if self.chain is not None:
            self.chain.whole(_without_cache_control(data) if _CACHE_CONTROL in data else data)

    # lists of prompts

    def ids(self, ids: list[Any]) -> None:
        """Token ids of one prompt."""
        self.token_ids = (self.token_ids or 0) + len(ids)
        if self.chain is None:
            return
        try:
            self.chain.data(array("q", ids).tobytes())
        except (TypeError, OverflowError):  # not ids at all: the engine refuses them
            self.chain.whole(b"%d" % len(ids))

    def prompts(self, value: Any) -> int:
        """A prompt or a list of prompts, each of text, token ids or an object; how many there are, at least 1.

        Only the first is fingerprinted.
        """
        if type(value) is not list:
            self.value(value)
            self._end()
            return 1
        kinds = set(map(type, value))
        if kinds <= {int} and value:
            self.ids(value)
            self._end()
            return 1
        return max(1, self._each(value))

    def _each(self, prompts: list[Any]) -> int:
        chain, found = self.chain, 0
        for prompt in prompts:
            if type(prompt) is str:
                self._text(prompt)
            elif type(prompt) is list:
                self._nested(prompt)
            elif type(prompt) is Item:
                self._item(prompt, 0)
            else:
                continue
            found += 1
            self._end()
            self.chain = None
        self.chain = chain
        return found

    def _nested(self, prompt: list[Any]) -> None:
        if set(map(type, prompt)) <= {int}:
            self.ids(prompt)
        else:
            self.value(prompt)

    # marks

    def _begin(self, role: str) -> None:
        if self.chain is not None:
            self.chain.begin(role)

    def _end(self) -> None:
        if self.chain is not None:
            self.chain.end()


def _system_messages(messages: list[Any]) -> int:
    """How many messages at the head of a conversation are the system's."""
    for at, message in enumerate(messages):
        role = message.role if type(message) is Item else None
        if type(role) is not str or role not in _SYSTEM:
            return at
    return len(messages)


def _media_of(item: Item) -> tuple[Media | None, Raw | None]:
    """The kind and the data of a part, by its type, or by its fields where it has no type."""
    kind = _MEDIA_TYPES.get(item.type) if type(item.type) is str else None
    for fields, media in (
        ((item.image_url, item.image, item.image_embeds, item.image_pil), Media.IMAGE),
        ((item.input_audio, item.audio_url, item.audio_embeds), Media.AUDIO),
        ((item.video_url, item.video, item.video_embeds), Media.VIDEO),
    ):
        for raw in fields:
            if raw is not NULL:
                return (kind or (media if item.type is None else None)), raw
    further = next((raw for raw in (item.source, item.file) if raw is not NULL), None)
    return kind, further


def _without_cache_control(data: bytes) -> bytes:
    """A tool without the mark that clients move from tool to tool."""
    fields = decode_or(dict[str, Raw], data, None)
    if not isinstance(fields, dict):
        return data
    fields.pop("cache_control", None)
    return b"\0".join(part for key, raw in fields.items() for part in (key.encode(), bytes(raw)))

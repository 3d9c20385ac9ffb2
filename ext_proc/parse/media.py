"""Pictures, sounds, videos and documents among the parts of a message: what a part is, and where it keeps its data."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from ext_proc.parse.body import Item
from ext_proc.parse.scalars import NULL
from tidegate.domain.routing import Media

_MEDIA_FIELDS: Final = {
    Media.IMAGE: ("image_url", "image", "image_embeds", "image_pil"),
    Media.AUDIO: ("input_audio", "audio_url", "audio_embeds", "audio"),
    Media.VIDEO: ("video_url", "video", "video_embeds"),
}
MEDIA_TYPES: Final = {
    **{field: (media, field) for media, fields in _MEDIA_FIELDS.items() for field in fields},
    "image": (Media.IMAGE, "source"),
    "input_image": (Media.IMAGE, "image_url"),
    "input_video": (Media.VIDEO, "video_url"),
    "document": (None, "source"),
    "file": (None, "file"),
    "input_file": (None, "file"),
}
"""By the type of a part: its kind, and the field that holds it. Documents are no medium of their own."""


class Source(msgspec.Struct, gc=False):
    """What a document holds: its text, or its blocks."""

    type: Raw = NULL
    data: Raw = NULL
    content: str | list[Item] | None = None


_decode_source: Final = msgspec.json.Decoder(Source).decode


def document_of(item: Item) -> Source | None:
    """The source of a part that is a document; None for any other part, and where the source cannot be read."""
    if item.type != "document" or item.source is NULL:
        return None
    try:
        return _decode_source(item.source)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def media_of(item: Item) -> tuple[Media | None, Raw]:
    """The kind and the data of a part: by its type, or by its fields where it has no type."""
    if type(item.type) is str:
        media, field = MEDIA_TYPES.get(item.type, (None, ""))
        return media, getattr(item, field, NULL)
    for media, fields in _MEDIA_FIELDS.items() if holds_media(item) else ():
        for field in fields:
            data: Raw = getattr(item, field)
            if data is not NULL:
                return media, data
    return None, NULL


def holds_media(item: Item) -> bool:
    """Whether a field of media is there. Written out: it runs for every part without a type."""
    picture = not (item.image_url is item.image is item.image_embeds is item.image_pil is NULL)
    sound = not (item.input_audio is item.audio_url is item.audio_embeds is item.audio is NULL)
    return picture or sound or not (item.video_url is item.video is item.video_embeds is NULL)

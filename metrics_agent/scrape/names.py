"""The names that an engine serves, LoRA adapters among them: its metrics tell the first name alone."""

from __future__ import annotations

from typing import Final

import msgspec

from metrics_agent.scrape.http import PageSource, ScrapeFailedError
from metrics_agent.vendors import VLLM

EVERY_SECONDS: Final = 5.0
MOST_NAMES: Final = 256
"""Names of one engine: every one goes into each of its samples."""
LONGEST_NAME: Final = 256


class _Model(msgspec.Struct):
    id: str


class _List(msgspec.Struct):
    data: list[_Model]


_decode: Final = msgspec.json.Decoder(_List).decode


class ServedNames:
    """What `/v1/models` of one engine lists, asked for every EVERY_SECONDS. `names` is empty while unknown."""

    def __init__(self, pages: PageSource, address: str) -> None:
        self._pages, self._address = pages, address
        self._asked_at: float | None = None
        self.names: tuple[str, ...] = ()

    async def refresh(self, now: float) -> None:
        """Ask when it is time; `now` is monotonic seconds. Names stay when the engine does not answer well."""
        if self._asked_at is not None and now - self._asked_at < EVERY_SECONDS:
            return
        self._asked_at = now
        try:
            page = await self._pages.get(self._address, VLLM.models)
        except ScrapeFailedError:
            return
        if page.status == 200:
            self.names = read_names(page.body) or self.names

    def forget(self) -> None:
        """The engine failed: whatever answers next is asked at once."""
        self._asked_at = None


def read_names(body: bytes) -> tuple[str, ...]:
    """The ids of an OpenAI list of models, each once, in its order; none when it is not such a list."""
    try:
        listed = _decode(body).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    fit = (one.id for one in listed if 0 < len(one.id) <= LONGEST_NAME and one.id.isprintable())
    return tuple(dict.fromkeys(fit))[:MOST_NAMES]

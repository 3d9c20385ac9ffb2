"""Whether an engine serves, by its own health page."""

from __future__ import annotations

from typing import Final

from metrics_agent.scrape.http import PageSource
from metrics_agent.vendor import Vendor
from metrics_agent.vendors import VENDORS

NO_SUCH_PAGE: Final = frozenset({400, 404, 405, 501})
"""How servers answer a path that they do not know; Triton says 400."""


class Health:
    """The health page of one engine. `path` is where it was found, None before that."""

    def __init__(self, pages: PageSource, address: str, pinned: Vendor | None) -> None:
        first = (pinned.health,) if pinned else ()
        self._paths = tuple(dict.fromkeys((*first, *(vendor.health for vendor in VENDORS))))
        self._pages, self._address = pages, address
        self.path: str | None = None

    async def ask(self) -> bool | None:
        """Whether it answers 200; None when the server has no such page anywhere. Raises ScrapeFailedError."""
        for path in (self.path,) if self.path else self._paths:
            answer = await self._pages.get(self._address, path)
            if answer.status not in NO_SUCH_PAGE:
                self.path = path
                return answer.status == 200
        self.path = None
        return None

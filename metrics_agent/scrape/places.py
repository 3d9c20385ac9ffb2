"""Where an engine's metrics are: the paths and ports of the vendor table, tried until one shows an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from metrics_agent.scrape.effort import Effort
from metrics_agent.scrape.http import Page, PageSource, ScrapeFailedError
from metrics_agent.scrape.iterations import read_iterations
from metrics_agent.scrape.life import Failure
from metrics_agent.scrape.reading import Reading, read_page
from metrics_agent.targets import Target
from metrics_agent.vendor import Vendor
from metrics_agent.vendors import BY_NAME, TRTLLM_SERVE, VENDORS
from tidegate.domain.topology import split_address

HISTOGRAMS_EVERY_SECONDS: Final = 0.95
LOOK_EVERY_SECONDS: Final = 1.0
NO_PAGES_FROM: Final = 500

log = structlog.get_logger("metrics_agent.scrape")


@dataclass(frozen=True, slots=True)
class Place:
    """An address and a path on it."""

    address: str
    path: str


class EnginePage:
    """The metrics page of one engine. Remembers where it was found, and looks elsewhere while nothing is known.

    What reading costs is counted in `effort`.
    """

    def __init__(self, pages: PageSource, target: Target, effort: Effort) -> None:
        self._pages, self._target, self._effort = pages, target, effort
        self._pinned = BY_NAME[target.engine] if target.engine else None
        self._place = places(target, None)[0]
        self._looked_at: float | None = None
        self._whole_at: float | None = None

    async def read(self, now: float, now_unix_seconds: float, health_path: str | None) -> Reading:
        """What the page says. `now` is monotonic seconds; `health_path` tells apart who has metrics elsewhere.

        A server that has no page (404) is reachable and says nothing. Raises ScrapeFailedError.
        """
        page = await self._get(self._place)
        reading = self._understand(page, now_unix_seconds)
        if reading.vendor is None and self._may_look(now):
            reading = await self._look(page, now_unix_seconds, health_path) or reading
        return reading if reading.vendor else self._iterations(page)

    def _understand(self, page: Page, now_unix_seconds: float) -> Reading:
        """What the page says; its histograms once a second, since they tell of the last minute."""
        if page.status != 200:
            return Reading()
        with self._effort.spent():
            return self._read(page, now_unix_seconds)

    def _read(self, page: Page, now_unix_seconds: float) -> Reading:
        if self._whole_at is not None and 0 <= now_unix_seconds - self._whole_at < HISTOGRAMS_EVERY_SECONDS:
            reading = read_page(page.body, now_unix_seconds, self._pinned, histograms=False)
            if reading.vendor is not None:
                return reading
        self._whole_at = now_unix_seconds
        return read_page(page.body, now_unix_seconds, self._pinned)

    def _iterations(self, page: Page) -> Reading:
        if page.status != 200 or self._pinned not in {None, TRTLLM_SERVE}:
            return Reading()
        with self._effort.spent():
            return read_iterations(page.body)

    async def _get(self, place: Place) -> Page:
        """A page in full. One whose end nobody told has to end as every page does, with a line."""
        try:
            page = await self._pages.get(place.address, place.path)
        except ScrapeFailedError as exc:
            # Nobody serves metrics there; whether the engine lives, its health page says.
            if exc.why is Failure.REFUSED and place.address != self._target.address:
                return Page(404, b"")
            raise
        if page.status >= NO_PAGES_FROM:
            raise ScrapeFailedError(Failure.STATUS)
        if not page.sized and page.status == 200 and page.body and not page.body.endswith(b"\n"):
            raise ScrapeFailedError(Failure.BROKEN)
        return page

    def _may_look(self, now: float) -> bool:
        due = self._looked_at is None or now - self._looked_at >= LOOK_EVERY_SECONDS
        self._looked_at = now if due else self._looked_at
        return due

    async def _look(self, page: Page, now_unix_seconds: float, health_path: str | None) -> Reading | None:
        """The first place that shows an engine's families, else one that lists iterations."""
        moved = (Place(self._place.address, page.moved_to),) if page.moved_to else ()
        for place in (*moved, *places(self._target, health_path)):
            if place != self._place:
                try:
                    other = await self._get(place)
                except ScrapeFailedError:
                    continue
                reading = self._understand(other, now_unix_seconds)
                if reading.vendor is not None:
                    log.info("metrics found", engine=self._target.address, kind=reading.vendor, path=place.path)
                    self._place = place
                    return reading
                lesser = (place, self._iterations(other))
                if lesser[1].vendor is not None:
                    self._place = place
        return None


def places(target: Target, health_path: str | None) -> list[Place]:
    """Where to look, in order: where the file says, or every path of the table, or the pinned engine's.

    A port of its own is asked only of an engine that is pinned, or whose health page is that engine's.
    """
    if target.metrics:
        return [metrics_place(target.metrics)]
    vendors = (BY_NAME[target.engine],) if target.engine else VENDORS
    own = [Place(target.address, vendor.page) for vendor in vendors]
    known = (vendor for vendor in vendors if target.engine or vendor.health == health_path)
    elsewhere = [_on_port(target, vendor) for vendor in known if vendor.port]
    return list(dict.fromkeys((*own, Place(target.address, "/metrics"), *elsewhere)))


def metrics_place(text: str) -> Place:
    """`host:port` or `host:port/path`; the path is /metrics unless given."""
    address, slash, path = text.partition("/")
    return Place(address, slash + path if path else "/metrics")


def _on_port(target: Target, vendor: Vendor) -> Place:
    host, _ = split_address(target.address)
    return Place(f"[{host}]:{vendor.port}" if ":" in host else f"{host}:{vendor.port}", vendor.page)

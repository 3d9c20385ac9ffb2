"""The owner of one engine: scrapes it for ever and keeps its newest sample."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from metrics_agent.cadence import next_scrape
from metrics_agent.instruments import Instruments
from metrics_agent.scrape.effort import Effort
from metrics_agent.scrape.health import Health
from metrics_agent.scrape.http import PageSource, ScrapeFailedError
from metrics_agent.scrape.life import Failure, Life
from metrics_agent.scrape.names import ServedNames
from metrics_agent.scrape.places import EnginePage
from metrics_agent.scrape.reading import Reading
from metrics_agent.targets import Target
from metrics_agent.vendors import BY_NAME
from metrics_agent.window import CounterWindow, HistogramWindow
from tidegate.domain.sample import EndpointSample, Status

HEALTH_EVERY_SECONDS: Final = 1.0
QUANTILE: Final = 0.99

log = structlog.get_logger("metrics_agent.scrape")


class EngineWatcher:
    """Watches one engine. `latest` is its newest sample, None before the first look.

    `clock` gives Unix milliseconds for samples, `monotonic` seconds for intervals and windows, `random` [0, 1).
    A sample keeps the time its page was asked for: a failed scrape leaves it as it is, to age. An engine that is
    found unreachable is a finding of its own, with that time and no values. Of the loop's time an engine takes at most
    the share that `effort` grants: one whose page costs more is scraped more rarely.
    """

    def __init__(
        self,
        target: Target,
        node: str,
        pages: PageSource,
        instruments: Instruments,
        *,
        interval_seconds: float,
        clock: Callable[[], int],
        random: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
        effort: Effort | None = None,
    ) -> None:
        self.target = target
        self.latest: EndpointSample | None = None
        self._node, self._instruments = node, instruments
        self._interval, self._clock, self._random, self._monotonic = interval_seconds, clock, random, monotonic
        self._life = Life()
        self._health_at: float | None = None
        self._seq = clock()  # grows across restarts: an agent samples slower than once a millisecond
        self._latency, self._first_token, self._generated = HistogramWindow(), HistogramWindow(), CounterWindow()
        self._queries, self._hits = CounterWindow(), CounterWindow()
        self._health = Health(pages, target.address, BY_NAME.get(target.engine or ""))
        self._effort = effort or Effort()
        self._page = EnginePage(pages, target, self._effort)
        self._served = ServedNames(pages, target.address)
        self._fault = ""

    async def run(self) -> None:
        """Scrape until cancelled, on the node's slots."""
        while True:
            rest = self._effort.rest_seconds()
            due = next_scrape(self._monotonic(), self._interval, self._life.failures, self._random, rest)
            await asyncio.sleep(max(0.0, due - self._monotonic()))
            await self.scrape()

    async def scrape(self) -> None:
        """Look once. Never raises, whatever the engine does and whatever reading it raises."""
        at_ms, began = self._clock(), self._monotonic()
        try:
            await self._check_health(began)
            reading = await self._page.read(began, at_ms / 1000, self._health.path)
            await self._served.refresh(began)
            with self._effort.spent():
                self._take(reading, at_ms, began)
        except ScrapeFailedError as exc:
            self._failed(exc.why, at_ms)
        except Exception as exc:  # noqa: BLE001 - a defect in reading one page may not end the watching
            self._say(f"{type(exc).__name__}: {exc}")
            self._failed(Failure.UNREADABLE, at_ms)

    def _take(self, reading: Reading, at_ms: int, began: float) -> None:
        """Keep the sample that a reading makes. The life goes on as well as it did when that raises."""
        life = self._life.after_page(shows_engine=reading.vendor is not None)
        self._observe(reading, began)
        sample = self._sample(reading, life.status(reading), at_ms, began)
        self._life = life
        self._keep(sample)
        if reading.unread:
            self._instruments.unread_families.labels(self.target.address).inc(reading.unread)
        self._instruments.scrape_seconds.labels(self.target.address).observe(self._monotonic() - began)

    def _say(self, fault: str) -> None:
        """Log a defect once, not at every scrape."""
        if fault != self._fault:
            log.error("an engine's page cannot be read", address=self.target.address, error=fault)
        self._fault = fault

    async def _check_health(self, now: float) -> None:
        """Ask for health each time until it is good, then once a second: a dead engine's server may answer on."""
        due = self._health_at is None or now - self._health_at >= HEALTH_EVERY_SECONDS
        if due or not self._life.healthy:
            self._life = self._life.after_health(await self._health.ask())
            self._health_at = now

    def _failed(self, why: Failure, at_ms: int) -> None:
        self._instruments.scrape_failures.labels(self.target.address, why.value).inc()
        self._life = self._life.after_failure(why)
        self._served.forget()
        if self._life.gone:
            self._keep(self._sample_without_values(Status.UNREACHABLE, at_ms))

    def _observe(self, reading: Reading, now: float) -> None:
        self._latency.observe(now, reading.latency)
        self._first_token.observe(now, reading.first_token)
        self._generated.observe(now, reading.generated)
        self._queries.observe(now, reading.prefix_queries)
        self._hits.observe(now, reading.prefix_hits)

    def _sample(self, reading: Reading, status: Status, at_ms: int, now: float) -> EndpointSample:
        return EndpointSample(
            cluster=self.target.cluster,
            address=self.target.address,
            node=self._node,
            sampled_at_ms=at_ms,
            seq=self._next_seq(),
            status=status,
            running=reading.running,
            waiting=reading.waiting,
            kv_used_ratio=reading.kv_used_ratio,
            kv_capacity_tokens=reading.kv_capacity_tokens,
            block_size=reading.block_size,
            latency_p99_ms=_milliseconds(self._latency.quantile(now, QUANTILE)),
            tokens_per_second=self._generated.rate(now),
            prefix_hit_ratio=self._hit_ratio(reading, now),
            prompt_tokens_total=reading.prompt_tokens,
            prompts_total=reading.prompts,
            ttft_p99_ms=_milliseconds(self._first_token.quantile(now, QUANTILE)),
            admission_rejections_total=reading.rejected,
            generation_tokens_total=reading.generated_tokens,
            requests_finished_total=reading.finished,
            loras=reading.loras,
            max_loras=reading.max_loras,
            models=self._served.names or reading.models,
        )

    def _hit_ratio(self, reading: Reading, now: float) -> float | None:
        """Of the last minute; where no prompt came in it, since the engine's start; else what the engine says."""
        queries, hits = self._queries.increase(now), self._hits.increase(now)
        if not queries or hits is None:
            queries, hits = sum(reading.prefix_queries.values()), sum(reading.prefix_hits.values())
        return min(1.0, hits / queries) if queries else reading.hit_ratio

    def _sample_without_values(self, status: Status, at_ms: int) -> EndpointSample:
        return EndpointSample(
            cluster=self.target.cluster,
            address=self.target.address,
            node=self._node,
            sampled_at_ms=at_ms,
            seq=self._next_seq(),
            status=status,
        )

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _keep(self, sample: EndpointSample) -> None:
        if self.latest is None or self.latest.status.takes_traffic != sample.status.takes_traffic:
            log.info("engine", address=sample.address, cluster=sample.cluster, status=sample.status.value)
        self.latest = sample


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000

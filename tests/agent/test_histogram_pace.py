"""Histograms, most of a page's cost, are read once a second; numbers each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics_agent.scrape.effort import Effort
from metrics_agent.scrape.http import Page
from metrics_agent.scrape.places import EnginePage
from metrics_agent.targets import Target

PAGES = Path(__file__).parent / "pages"
NOW = 1_700_000_000.0


class Engine:
    """Answers with one page."""

    def __init__(self, body):
        self.body = body

    async def get(self, address, path):
        return Page(200, self.body)


def page_of(body):
    return EnginePage(Engine(body), Target("c", "a:1"), Effort())


@pytest.fixture
def page():
    return page_of((PAGES / "vllm_0.33_two_engines.txt").read_bytes())


async def test_numbers_are_read_each_time_and_histograms_once_a_second(page):
    readings = [await page.read(at, NOW + at, None) for at in (0.0, 0.1, 0.9, 1.0, 1.1)]
    assert [bool(reading.latency) for reading in readings] == [True, False, False, True, False]
    assert {reading.running for reading in readings} == {11}


async def test_clock_that_went_back_reads_histograms(page):
    await page.read(0.0, NOW, None)
    assert (await page.read(0.1, NOW - 60, None)).latency


async def test_engine_that_shows_histograms_alone_stays_known():
    body = (PAGES / "vllm_0.33_two_engines.txt").read_bytes()
    page = page_of(b"\n".join(line for line in body.split(b"\n") if b"_bucket{" in line) + b"\n")
    vendors = [(await page.read(at, NOW + at, None)).vendor for at in (0.0, 0.1, 0.2)]
    assert vendors == ["vllm"] * 3

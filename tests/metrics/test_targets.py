"""Every service is a target: `/metrics` in both formats, `/healthz`."""

from __future__ import annotations

from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families

from ext_proc.workers import parent
from simulator.app import start
from tests.ports import take_free_port
from tidegate.cli.metrics.families import families
from tidegate.cli.metrics.registries import SERVICES, running
from tidegate.settings.services import EngineSimSettings

open_metrics: Any = parser.text_string_to_metric_families
OPEN_METRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}


async def names(session: aiohttp.ClientSession, address: str, path: str = "/metrics") -> tuple[set[str], set[str]]:
    """Families of the page in the text format, and in OpenMetrics."""
    async with (
        session.get(f"http://{address}{path}") as plain,
        session.get(f"http://{address}{path}", headers=OPEN_METRICS) as better,
    ):
        assert (plain.status, better.status) == (200, 200)
        assert better.headers["Content-Type"].startswith("application/openmetrics-text")
        assert better.headers["Content-Encoding"] == "gzip"
        listed = [family.name for family in open_metrics(await better.text())]
        assert len(listed) == len(set(listed))
        return {family.name for family in text_string_to_metric_families(await plain.text())}, set(listed)


async def test_every_service_has_a_page_of_all_that_is_registered_and_a_health() -> None:
    pages = {service: f"127.0.0.1:{take_free_port()}" for service in SERVICES}
    async with running(pages) as registries, aiohttp.ClientSession() as session:
        for service, address in pages.items():
            plain, better = await names(session, address)
            registered = {name.removesuffix("_total").removesuffix("_info") for name in families(registries[service])}
            assert {name.removesuffix("_info") for name in plain} == registered, service
            assert better == registered, service
            async with session.get(f"http://{address}/healthz") as health:
                assert health.status in {200, 503}, service
                assert await health.text(), service


async def test_a_simulated_engine_keeps_the_colons_of_its_names_whoever_asks() -> None:
    engine = await start(EngineSimSettings(port=0))
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{engine.address}/metrics", headers=OPEN_METRICS) as page,
            session.get(f"http://{engine.address}/health") as health,
        ):
            assert "\nvllm:num_requests_running{" in await page.text()
            assert health.status == 200
    finally:
        await engine.stop()


async def test_the_parent_of_workers_is_one_even_while_none_serves() -> None:
    _, page = parent([], CollectorRegistry())
    address = await page.start("127.0.0.1:0")
    try:
        assert address is not None
        async with aiohttp.ClientSession() as session:
            plain, _ = await names(session, address)
            async with session.get(f"http://{address}/healthz") as health:
                assert health.status == 503
        assert "tidegate_ext_proc_workers" in plain
    finally:
        await page.stop()

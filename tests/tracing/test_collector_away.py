"""A collector that is not there costs spans, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.ports import take_free_port
from tests.tracing.collector import Collector
from tests.tracing.world import SAMPLED, start_traced
from tests.up.cluster import stop_up

pytestmark = [pytest.mark.envoy, pytest.mark.redis]


def test_without_a_collector_requests_are_served_and_the_log_says_so_once(tmp_path: Path) -> None:
    world = start_traced(tmp_path, Collector(f"http://127.0.0.1:{take_free_port()}"), "wire")
    failed = 'tidegate_trace_spans_total{outcome="failed"}'
    try:
        for number in range(20):
            assert world.ask(f"number {number}", SAMPLED) == 200
        wait_until(lambda: world.metric("ext_proc", failed) >= 80, what="20 requests' spans are counted as lost")
        before = world.metric("ext_proc", failed)
        assert world.ask("one more", SAMPLED) == 200
        wait_until(lambda: world.metric("ext_proc", failed) > before, what="the next are lost as well")
        assert world.log("ext_proc").count("spans are not exported") == 1
    finally:
        stop_up(world.up)

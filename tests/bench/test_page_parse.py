"""The bench of the page reader."""

from __future__ import annotations

import time

from bench.page_parse import PAGE, TARGET_BYTES, measure, with_engines
from metrics_agent.scrape.reading import read_page


def test_page_of_more_engines_says_so_many_times_as_much():
    live = PAGE.read_bytes()
    one, four = (read_page(with_engines(live, count), time.time()) for count in (1, 4))
    assert one.running
    assert (four.running, four.kv_capacity_tokens) == (4 * one.running, 4 * one.kv_capacity_tokens)
    assert len(four.latency) == 4 * len(one.latency)


def test_rows_name_their_pages_and_one_is_of_the_targets_size():
    rows = measure(rounds=1)
    assert all(min(row["median_ms"], row["ratio"]) > 0 for row in rows)
    assert any(TARGET_BYTES <= row["page_bytes"] <= 1.1 * TARGET_BYTES for row in rows)

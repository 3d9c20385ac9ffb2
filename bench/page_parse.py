"""What reading an engine's metrics page costs, against prometheus_client's parser: `python -m bench.page_parse`.

The pages are a real vLLM's (0.32, under load) with the series of more engines beside its own, as data-parallel
engines show them, and one with a label as large as some builds write their configuration. Both readers take turns
on the same page, and the time is of the processor, so that a noisy machine changes little. `prometheus_client` only
takes the page apart; ours also finds the engine, folds its series and names its values.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from metrics_agent.scrape.reading import read_page

PAGE = Path(__file__).parent.parent / "tests/agent/pages/vllm_0.32.0_cpu_live_busy.txt"
ENGINES = (1, 4, 32)
LABEL_BYTES = 1 << 20
ROUNDS = 200
TARGET_MS = 0.8
TARGET_BYTES = 120_000
NOW = time.time()


def measure(rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Rows of {name, page_bytes, lines, median_ms, best_ms, prometheus_client_ms, ratio}, one a page."""
    live = PAGE.read_bytes()
    pages = [(f"{count} engines", with_engines(live, count)) for count in ENGINES]
    pages.append(("1 MB label", b'vllm:vllm_config_info{cfg="' + b"x" * LABEL_BYTES + b'"} 1.0\n' + live))
    return [_row(name, page, rounds) for name, page in pages]


def figures() -> list[dict[str, Any]]:
    """The rows as `make bench` shows them: the median, and how many times faster than prometheus_client's parser."""
    shown = []
    for row in measure():
        name = f"page of {row['page_bytes'] / 1000:.0f} KB ({row['name']})"
        target = TARGET_MS if row["page_bytes"] <= 1.1 * TARGET_BYTES else None
        faster = row["prometheus_client_ms"] / row["median_ms"]
        shown.append({"name": name, "value": row["median_ms"], "unit": "ms", "target": target})
        shown.append({"name": f"{name}, faster by", "value": faster, "unit": "×", "target": None})
    return shown


def with_engines(page: bytes, count: int) -> bytes:
    """The page of `count` engines: each line that names engine 0 once for each; no `_created`, as of processes."""
    lines: list[bytes] = []
    for line in page.splitlines(keepends=True):
        if b"_created" not in line:
            own = b'engine="0"'
            lines += [line.replace(own, b'engine="%d"' % n) for n in range(count if own in line else 1)]
    return b"".join(lines)


def _row(name: str, page: bytes, rounds: int) -> dict[str, Any]:
    text = page.decode()
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        ours.append(_milliseconds(lambda: read_page(page, NOW)))
        if number % 10 == 0:  # a tenth is enough: it takes that much longer
            theirs.append(_milliseconds(lambda: list(text_string_to_metric_families(text))))
    median = statistics.median(ours)
    return {
        "name": f"page_parse: {name}",
        "page_bytes": len(page),
        "lines": page.count(b"\n"),
        "median_ms": median,
        "best_ms": min(ours),
        "prometheus_client_ms": statistics.median(theirs),
        "ratio": statistics.median(theirs) / median,
    }


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return (time.thread_time() - began) * 1000


def _table(rows: list[dict[str, Any]]) -> str:
    head = f"{'page':<26}{'KB':>8}{'median ms':>12}{'best ms':>10}{'prometheus_client ms':>22}{'times':>8}"
    lines = [
        f"{row['name']:<26}{row['page_bytes'] / 1000:>8.0f}{row['median_ms']:>12.3f}{row['best_ms']:>10.3f}"
        f"{row['prometheus_client_ms']:>22.2f}{row['ratio']:>8.1f}"
        for row in rows
    ]
    return "\n".join([head, *lines, f"target: median ≤ {TARGET_MS} ms for {TARGET_BYTES / 1000:.0f} KB"])


def main() -> None:
    """Print the table and the rows as one JSON line."""
    rows = measure()
    print(_table(rows))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()

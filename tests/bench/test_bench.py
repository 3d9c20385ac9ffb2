"""The parts of the bench that numbers depend on."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console

from bench import agent_fleet, engine_page, processes, report
from bench.__main__ import NAMES, chosen, counts
from bench.body import MODEL, PATH, chat_body
from bench.load import Load
from bench.load.asyncio_client import AsyncioClient, quantile
from bench.load.wrk import parse
from bench.ports import answers
from bench.rows import Row
from bench.scenario import Target
from bench.scenarios.plain_envoy import PlainEnvoy
from bench.upstream import upstream
from metrics_agent.scrape.reading import read_page
from tests.processes import alive
from tidegate.store.schema import decode_tick, encode_tick


@pytest.mark.parametrize("size", [200, 2048, 1 << 20])
def test_body_has_the_exact_size_and_is_a_chat(size: int) -> None:
    body = chat_body(size)
    assert len(body) == size
    assert json.loads(body)["model"] == MODEL


def test_body_that_cannot_be_so_small_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        chat_body(20)


def test_result_line_of_wrk_is_read() -> None:
    line = 'RESULT {"requests": 1000, "microseconds": 2000000, "p50_us": 1500.0, "p99_us": 9000.0, "errors": 3}'
    wanted = Load(requests=1000, seconds=2.0, p50_ms=1.5, p99_ms=9.0, errors=3)
    assert parse(f"Running 2s test\n{line}\n") == wanted


def test_wrk_without_a_result_says_why() -> None:
    with pytest.raises(RuntimeError, match="connection refused"):
        parse("", "unable to connect: connection refused")


@pytest.mark.parametrize(("q", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_quantile_is_the_value_at_its_rank(q: float, expected: int) -> None:
    assert quantile(range(1, 101), q) == expected


def test_quantile_of_nothing_is_zero() -> None:
    assert quantile([], 0.5) == 0


@pytest.mark.parametrize("text", ["", "0", "1,x", "-3", "1,,2"])
def test_connections_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        counts(text)


def test_scenarios_run_in_their_own_order() -> None:
    assert chosen([NAMES[1], NAMES[0]]) == list(NAMES[:2])
    assert chosen([]) == list(NAMES)


def test_unknown_scenario_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="direct"):
        chosen(["nonsense"])


def test_cpu_of_a_process_grows_while_it_works() -> None:
    before = processes.cpu_seconds([os.getpid()])
    while processes.cpu_seconds([os.getpid()]) < before + 0.05:
        sum(range(10_000))
    assert processes.cpu_seconds([0]) == 0


BENCH = """
import sys, time
from pathlib import Path
from bench import processes
child = processes.start(["sleep", "600"], Path(sys.argv[1]))
try:
    print(child.pid, flush=True)
    time.sleep(600)
finally:
    processes.stop(child)
"""


def test_a_bench_that_is_ended_ends_what_it_started(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BENCH, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        child = int(bench.stdout.readline())
        assert alive(child)
        bench.terminate()
    assert bench.returncode == 128 + signal.SIGTERM
    assert not alive(child)


def test_ratio_is_to_the_first_scenario_at_the_same_connections() -> None:
    rows = [
        Row(name=name, connections=n, body_bytes=2048, rps=rps, p50_ms=1, p99_ms=2, cpu_us={"envoy": 10})
        for name, n, rps in [("direct", 1, 1000), ("direct", 16, 4000), ("other", 1, 500), ("other", 16, 1000)]
    ]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(*report.tables(rows, "load by nobody"))
    lines = captured.get().splitlines()
    assert any(line.split()[:6] == ["other", "1", "2", "KiB", "500", "0.50"] for line in lines)
    assert any(line.split()[:6] == ["other", "16", "2", "KiB", "1,000", "0.25"] for line in lines)


def test_rows_are_written_as_json(tmp_path: Path) -> None:
    row = Row(name="a", connections=1, body_bytes=2048, rps=1, p50_ms=2, p99_ms=3, cpu_us={"envoy": 4})
    report.write(tmp_path / "out" / "latest.json", [row], {"load": "wrk"})
    (written,) = json.loads((tmp_path / "out" / "latest.json").read_text())["rows"]
    wanted = {"name": "a", "connections": 1, "body_bytes": 2048, "rps": 1, "p50_ms": 2, "p99_ms": 3}
    assert written.items() >= wanted.items()
    assert written["cpu_us"] == {"envoy": 4}


def run(url: str, body: Path, *, connections: int, requests: int) -> Load:
    """A load long enough for so many requests, however slow the machine."""
    for seconds in (0.3, 3.0, 30.0):
        load = AsyncioClient().run(url, body, connections, seconds)
        if load.requests >= requests:
            return load
    pytest.fail(f"{load.requests} requests in {load.seconds:.0f} s")


@pytest.mark.envoy
def test_fast_engines_answer_chats_and_look_idle_to_an_agent(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(chat_body(2048))
    with upstream(tmp_path) as engines, PlainEnvoy().target(engines, tmp_path) as target:
        for port in engines.ports:
            assert all(answers(f"http://127.0.0.1:{port}{path}") for path in ("/health", "/metrics", "/v1/models"))
        load = run(target.url, body, connections=4, requests=5)
        assert load.errors == 0
        assert run(target.url.replace(PATH, "/none"), body, connections=1, requests=1).errors > 0
        assert isinstance(target, Target)


def test_command_line_refuses_an_unknown_scenario() -> None:
    command = [sys.executable, "-m", "bench", "--only", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "no scenario is called nonsense" in done.stderr


async def test_engines_of_the_bench_send_a_page_of_the_size_that_moves_and_shows_its_queue() -> None:
    families = engine_page.Families()
    pages = [families.page()]
    families.work()
    pages.append(families.page())
    engine = engine_page._Engine(pages)
    engine.waiting = 7
    readings = [read_page(engine.answer().partition(b"\r\n\r\n")[2], 0.0) for _ in pages]
    assert len(pages[0]) >= engine_page.PAGE_BYTES
    assert [one.waiting for one in readings] == [7, 7]
    assert readings[0].generated != readings[1].generated
    assert readings[0].latency != readings[1].latency


def test_fleet_publishes_what_agents_do() -> None:
    tick = agent_fleet._tick(3, random.Random(1))
    assert tick == decode_tick(encode_tick(tick))
    assert len(tick.endpoints) * agent_fleet.NODES == 1000
    first, *_, last = agent_fleet._pipelines()[0][0].split(b"\r\n*")
    assert (b"MULTI" in first, b"EXEC" in last) == (True, True)


def test_figure_above_its_target_shows_red() -> None:
    rows = [{"name": n, "value": v, "unit": "ms", "target": 80.0} for n, v in (("good", 79.0), ("bad", 81.0))]
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(report.figures_table(rows))
    lines = console.export_text(styles=True).splitlines()
    assert "\x1b[32m79 ms" in next(line for line in lines if "good" in line)
    assert "\x1b[31m81 ms" in next(line for line in lines if "bad" in line)

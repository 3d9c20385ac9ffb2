"""What the comparison with other routers counts, and what it makes of the figures."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bench.load.asyncio_client import AsyncioClient
from bench.rivals.contenders import CONTENDERS, PLAIN, SMG_CACHE, VLLM_CACHE, WIRE
from bench.rivals.install import NotInstalled, Package, installed
from bench.rivals.measure import SMALL, Plan, measure, median_of
from bench.rivals.verdict import tables, verdicts
from bench.rows import Row
from bench.scenario import Target
from bench.upstream import Upstream

ROW = Row(name=WIRE, connections=16, body_bytes=SMALL, rps=900, p50_ms=1.0, p99_ms=4.0, requests=9)
TIDEGATE_CPU = {"envoy": 90.0, "ext_proc": 50.0, "redis": 3.0, "xds": 4.0, "upstream": 30.0}


def row(name: str, connections: int = 16, **figures: Any) -> Row:
    return replace(ROW, name=name, connections=connections, **figures)


def test_a_figure_is_the_median_of_its_rounds_and_the_rest_of_tidegate_is_one_part() -> None:
    rounds = [replace(ROW, rps=rps, cpu_us=TIDEGATE_CPU | {"ext_proc": rps / 10}) for rps in (300.0, 100.0, 200.0)]
    median = median_of(rounds)
    assert (median.rps, median.requests) == (200.0, 27)
    assert median.cpu_us == {"envoy": 90.0, "ext_proc": 20.0, "beside": 7.0}


def test_targets_are_met_and_missed_by_their_figures() -> None:
    rows = [
        row(WIRE, cpu_us={"envoy": 90.0, "ext_proc": 50.0}),
        row(WIRE, connections=1, p50_ms=0.5),
        row(PLAIN, connections=1, p50_ms=0.2),
        row(VLLM_CACHE, cpu_us={"router": 130.0}),
        row(SMG_CACHE, cpu_us={"router": 100.0}, p99_ms=3.9),
    ]
    assert [(one.met, round(one.measured or 0, 3)) for one in verdicts(rows)] == [
        (True, 50.0),
        (False, 1.077),
        (True, 1.4),
        (True, 0.3),
        (False, 1.026),
    ]
    assert len(tables(rows)) == 3


def test_a_rival_that_answered_nothing_is_compared_with_nobody() -> None:
    rows = [row(WIRE, cpu_us={"ext_proc": 50.0}), row(SMG_CACHE, cpu_us={"router": 9e9}, requests=0)]
    assert [one.met for one in verdicts(rows)] == [True, None, None, None, None]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {one.met for one in verdicts([row(PLAIN, connections=1)])} == {None}


def test_a_router_that_does_not_install_is_left_out_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        return subprocess.CompletedProcess([], 1, "", "first\nno such package\n")

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(NotInstalled, match=r"nothing 1\.0 is left out: .*no such package"):
        installed(Package("nothing", "1.0", "nothing"), tmp_path)


def test_a_router_that_is_there_is_not_installed_again(tmp_path: Path) -> None:
    command = tmp_path / "some-1.0" / "bin" / "some"
    command.parent.mkdir(parents=True)
    command.touch()
    assert installed(Package("some", "1.0", "some"), tmp_path) == command


class Absent:
    name = "absent"

    def target(self, upstream: Upstream, folder: Path) -> AbstractContextManager[Target]:
        raise NotInstalled("absent is left out")


def test_who_is_not_there_is_told_and_the_others_are_measured() -> None:
    said: list[str] = []
    plan = Plan(points=((1, SMALL),), rounds=1, seconds=1.0)
    rows = measure(plan, said.append, (CONTENDERS[0], Absent()))
    assert [(one.name, one.connections, one.body_bytes, one.errors) for one in rows] == [(PLAIN, 1, SMALL, 0)]
    assert rows[0].requests > 0
    assert set(rows[0].cpu_us) == {"envoy"}
    assert "absent is left out" in said


def test_files_of_a_folder_take_turns(tmp_path: Path) -> None:
    seen: list[bytes] = []

    class Engine(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    for name in "abc":
        (tmp_path / name).write_text(name)
    with HTTPServer(("127.0.0.1", 0), Engine) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        for seconds in (0.2, 2.0, 20.0):
            seen.clear()
            assert AsyncioClient().run(url, tmp_path, 1, seconds).errors == 0
            if len(seen) >= 4:
                break
        server.shutdown()
        thread.join()
    assert seen[:4] == [b"a", b"b", b"c", b"a"]

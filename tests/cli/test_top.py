"""`tidegate top`: a whole picture in 80 columns, in a real pseudo-terminal, that gives the terminal back."""

from __future__ import annotations

import fcntl
import io
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.cli.conftest import Desk
from tests.controller.world import A, B
from tidegate.cli.look import age, bar, level, short_count, sparkline
from tidegate.cli.top_view import History, screen

ENDPOINT: dict[str, Any] = {
    "address": A,
    "status": "ready",
    "running": 3,
    "waiting": 12,
    "kv_used_ratio": 0.63,
    "weight": 412,
    "pinned": False,
    "drained": None,
    "load": {"latency": 0.5, "vram": 0.63, "entropy": None, "total": 0.41},
    "age_ms": 80,
    "stale": False,
    "prompts_total": 100,
    "sampled_at_ms": 1_000,
}


def report(*endpoints: dict[str, Any], **more: Any) -> dict[str, Any]:
    cluster = {"name": "phi-3", "models": ["phi-3"], "lb": "pick", "endpoints": list(endpoints)}
    return {
        "clusters": [cluster],
        "leader": "box:4711",
        "rejected": {},
        "services": {"agent": [{}]},
        "queues": {},
        "redis": {"reachable": True, "error": None},
        **more,
    }


def drawn(told: dict[str, Any], history: History, width: int = 80, height: int | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(screen(told, history, "127.0.0.1:6379", width, height=height))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_a_row_shows_weight_queue_kv_load_rate_and_age() -> None:
    history = History()
    history.add(report(ENDPOINT))
    later = {**ENDPOINT, "prompts_total": 125, "sampled_at_ms": 3_000}
    history.add(report(later))
    row = next(text for text in drawn(report(later), history) if text.startswith(A))
    assert row.split() == [A, "██", "412", "3", "12", "██▌", "63%", "▅▆·", "0.41", "▄▄", "12.5", "0.1s"]


def test_what_an_operator_should_know_stands_above() -> None:
    told = report(
        {**ENDPOINT, "drained": ""},
        {**ENDPOINT, "address": B, "status": "unreachable"},
        services={"agent": [], "xds": [{}]},
        rejected={"tune x": "why", "tune y": "why"},
        queues={"phi-3": {"waiting": 7, "bytes": 1, "oldest_ms": 1500}},
    )
    text = "\n".join(drawn(told, History()))
    assert "absent: agent" in text
    assert "rejected: tune x: why (and 1 more)" in text
    assert "7 wait in the gateway, oldest 1.5s" in text
    assert " 412d " in text
    assert " 412! " in text
    gone = report(redis={"reachable": False, "error": "Redis at x cannot be reached"})
    assert "Redis at x cannot be reached" in "\n".join(drawn(gone, History()))


def test_an_engine_that_began_anew_has_no_negative_rate() -> None:
    history = History()
    history.add(report(ENDPOINT))
    history.add(report({**ENDPOINT, "prompts_total": 2, "sampled_at_ms": 2_000}))
    assert history.rate("phi-3", ENDPOINT) is None


LARGE = {
    "address": "[2001:db8::1234:5678:9abc:def0]:65535",
    "running": 99_999,
    "waiting": 99_999,
    "weight": 1000,
    "kv_used_ratio": 1.0,
    "age_ms": 99_999_999,
    "prompts_total": 99_999_999,
}


@pytest.mark.parametrize("width", [80, 81, 100, 200])
@pytest.mark.parametrize("more", [{}, LARGE, {"weight": None, "running": None, "kv_used_ratio": None, "age_ms": None}])
def test_no_line_is_wider_than_the_screen(width: int, more: dict[str, Any]) -> None:
    lines = drawn(report({**ENDPOINT, **more}, rejected={"tune " + "x" * 99: "y" * 300}), History(), width)
    assert max(map(cell_len, lines)) <= width


def test_columns_stand_below_their_heads_and_fill_80_cells() -> None:
    head, row, _ = drawn(report(ENDPOINT), History())[-3:]
    assert cell_len(head.rstrip()) == cell_len(row.rstrip()) == 79
    for name, cell in (("weight", "412"), ("run", "  3 "), ("wait", "  12 "), ("KV", "63%"), ("age", "0.1s")):
        assert head.index(name) + len(name) == row.index(cell) + len(cell.rstrip()), name


def test_what_does_not_fit_is_counted() -> None:
    many = [{**ENDPOINT, "address": f"10.0.0.{n}:8000"} for n in range(50)]
    lines = drawn(report(*many), History(), height=24)
    assert len(lines) == 24
    assert lines[-1].startswith("… 32 more lines")


@given(st.one_of(st.none(), st.floats(-1, 2)), st.integers(1, 20))
def test_a_bar_has_its_width_and_a_level_one_cell(ratio: float | None, width: int) -> None:
    assert cell_len(bar(ratio, width)) == width
    assert cell_len(level(ratio)) == 1
    assert cell_len(sparkline([ratio] * 3, width)) == width
    assert bar(ratio, width).isspace() is (not ratio or ratio < 0)


@given(st.floats(0, 1e12))
def test_numbers_and_ages_stay_short(value: float) -> None:
    assert len(short_count(value)) <= 5
    assert len(age(min(value, 1e10))) <= 5


def test_once_prints_one_picture_and_json_the_rates(desk: Desk) -> None:
    said = desk.run("top", "--once", "--interval", "0.1")
    assert said.code == 0
    assert A in said.out
    assert max(map(cell_len, said.out.splitlines())) <= 80
    told = json.loads(desk.run("top", "phi-3", "--once", "--interval", "0.1", "--json").out)
    assert [one["name"] for one in told["clusters"]] == ["phi-3"]
    assert "requests_per_second" in told["clusters"][0]["endpoints"][0]


class Screen:
    """A process in a pseudo-terminal of 80 columns and 24 rows, and all that it wrote."""

    def __init__(self, command: list[str]) -> None:
        self.fd, tail = os.openpty()
        fcntl.ioctl(tail, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(tail)
        env = {**os.environ, "TERM": "xterm-256color"}
        env.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            command, stdin=tail, stdout=tail, stderr=tail, env=env, start_new_session=True, close_fds=True
        )
        self.tail, self.written = tail, b""

    def until(self, text: bytes, *, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while text not in self.written:
            assert time.monotonic() < end, self.written[-3000:].decode(errors="replace")
            if select.select([self.fd], [], [], 0.1)[0]:
                self.written += os.read(self.fd, 65536)

    def ended(self) -> int:
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end, "top did not end"
            if select.select([self.fd], [], [], 0.05)[0]:
                self.written += os.read(self.fd, 65536)
        while select.select([self.fd], [], [], 0.05)[0]:
            self.written += os.read(self.fd, 65536)
        return int(self.process.returncode)


@pytest.fixture
def top(desk: Desk) -> Iterator[Screen]:
    shown = Screen([sys.executable, "-m", "tidegate.cli.main", "top", "--interval", "0.2", *desk.where])
    yield shown
    shown.process.kill()
    shown.process.wait()
    os.close(shown.fd)
    os.close(shown.tail)


@pytest.mark.parametrize("end", ["q", "interrupt"])
def test_it_draws_on_a_screen_of_its_own_and_leaves_the_terminal_as_it_was(top: Screen, desk: Desk, end: str) -> None:
    top.until(A.encode())
    desk.run("weight", "set", "phi-3", A, "777")
    desk.decide()
    top.until(b"777")
    if end == "q":
        os.write(top.fd, b"xq")
    else:
        top.process.send_signal(signal.SIGINT)
    assert top.ended() == 0
    assert b"\x1b[?1049h" in top.written
    assert top.written.count(b"\x1b[?1049l") == 1
    assert b"\x1b[2J" not in top.written.split(A.encode(), 1)[1], "a refresh that clears the screen flickers"
    assert b"Traceback" not in top.written
    assert b"\x1b[?25h" in top.written, "the cursor shows again"
    assert termios.tcgetattr(top.tail) == top.before

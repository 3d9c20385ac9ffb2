"""The supervisor's promises, on children that start at once: it waits for less than 5 s before a restart and an end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import until
from tests.processes import alive
from tidegate.cli.up import processes
from tidegate.cli.up.processes import ChildKeepsDying, ProcessSpec, ProcessTree

PROMISE_SECONDS = 5.0
WAITS = ("/bin/sh", "-c", "exec sleep 600")
DEAF = ("/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done")


class Waits:
    """asyncio as the supervisor has it; `seconds` is what it waits for at most, the times of other things apart."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(seconds)

    async def wait_for(self, awaitable: Awaitable[int], seconds: float) -> int:
        self.seconds += seconds
        return await asyncio.wait_for(awaitable, seconds)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    noted = Waits()
    monkeypatch.setattr(processes, "asyncio", noted)
    return noted


def spec(folder: Path, name: str, argv: tuple[str, ...]) -> ProcessSpec:
    return ProcessSpec(name, argv, folder / f"{name}.log")


async def started(tree: ProcessTree, name: str) -> int:
    await until(lambda: name in tree.pids(), what=f"{name} started")
    return tree.pids()[name]


async def test_a_killed_child_is_replaced_within_the_promise(tmp_path: Path, waits: Waits) -> None:
    said: list[str] = []
    tree = ProcessTree(said.append, restart=True)
    tree.start(spec(tmp_path, "one", WAITS))
    first = await started(tree, "one")
    os.kill(first, signal.SIGKILL)
    await until(lambda: tree.pids().get("one") not in {None, first}, what="the replacement")
    assert 0 < waits.seconds < PROMISE_SECONDS
    assert any("SIGKILL" in line for line in said)
    await tree.stop()


async def test_stop_ends_also_a_child_that_ignores_sigterm_within_the_promise(tmp_path: Path, waits: Waits) -> None:
    tree = ProcessTree(lambda _: None, restart=True)
    deaf = spec(tmp_path, "deaf", DEAF)
    tree.start(deaf)
    pid = await started(tree, "deaf")
    await until(lambda: deaf.log.read_bytes() == b"deaf\n", what="its deafness")
    await tree.stop()
    assert 0 < waits.seconds < PROMISE_SECONDS
    assert not alive(pid)


async def test_without_restart_a_dead_child_stays_dead(tmp_path: Path) -> None:
    said: list[str] = []
    tree = ProcessTree(said.append, restart=False)
    tree.start(spec(tmp_path, "one", WAITS))
    os.kill(await started(tree, "one"), signal.SIGKILL)
    await until(lambda: said, what="its end being said")
    assert tree.pids() == {}
    await tree.stop()


@pytest.mark.parametrize("code", [1, 2])
async def test_a_child_that_cannot_live_fails_the_tree_with_its_last_words(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: 0.0))  # it dies at once
    tree = ProcessTree(lambda _: None, restart=True)
    tree.start(spec(tmp_path, "dies", (sys.executable, "-c", f"import sys; print('no luck'); sys.exit({code})")))
    with pytest.raises(ChildKeepsDying, match="no luck"):
        await asyncio.wait_for(tree.failed, 60)
    await tree.stop()

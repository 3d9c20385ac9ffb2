"""The supervisor's promises, on children that start at once: a restart and an end within 5 s each."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import until
from tests.processes import alive
from tidegate.cli.up.processes import ChildKeepsDying, ProcessSpec, ProcessTree

PROMISE_SECONDS = 5.0
WAITS = ("/bin/sh", "-c", "exec sleep 600")
DEAF = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")


def spec(folder: Path, name: str, argv: tuple[str, ...]) -> ProcessSpec:
    return ProcessSpec(name, argv, folder / f"{name}.log")


async def started(tree: ProcessTree, name: str) -> int:
    await until(lambda: name in tree.pids(), what=f"{name} started")
    return tree.pids()[name]


async def test_a_killed_child_is_replaced_within_the_promise(tmp_path: Path) -> None:
    said: list[str] = []
    tree = ProcessTree(said.append, restart=True)
    tree.start(spec(tmp_path, "one", WAITS))
    first = await started(tree, "one")
    at = time.monotonic()
    os.kill(first, signal.SIGKILL)
    await until(lambda: tree.pids().get("one") not in {None, first}, what="the replacement")
    assert time.monotonic() - at < PROMISE_SECONDS
    assert any("SIGKILL" in line for line in said)
    await tree.stop()


async def test_stop_ends_also_a_child_that_ignores_sigterm_within_the_promise(tmp_path: Path) -> None:
    tree = ProcessTree(lambda _: None, restart=True)
    tree.start(spec(tmp_path, "waits", WAITS))
    tree.start(spec(tmp_path, "deaf", DEAF))
    pids = [await started(tree, name) for name in ("waits", "deaf")]
    at = time.monotonic()
    await tree.stop()
    assert time.monotonic() - at < PROMISE_SECONDS
    assert not any(map(alive, pids))


async def test_without_restart_a_dead_child_stays_dead(tmp_path: Path) -> None:
    said: list[str] = []
    tree = ProcessTree(said.append, restart=False)
    tree.start(spec(tmp_path, "one", WAITS))
    os.kill(await started(tree, "one"), signal.SIGKILL)
    await until(lambda: said, what="its end being said")
    assert tree.pids() == {}
    await tree.stop()


@pytest.mark.parametrize("code", [1, 2])
async def test_a_child_that_cannot_live_fails_the_tree_with_its_last_words(tmp_path: Path, code: int) -> None:
    tree = ProcessTree(lambda _: None, restart=True)
    tree.start(spec(tmp_path, "dies", (sys.executable, "-c", f"import sys; print('no luck'); sys.exit({code})")))
    with pytest.raises(ChildKeepsDying, match="no luck"):
        await asyncio.wait_for(tree.failed, 30)
    await tree.stop()

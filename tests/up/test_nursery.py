"""Children that are forked rather than executed are told apart, watched and ended as others are."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import until, wait_until
from tests.ports import take_free_port
from tests.processes import alive
from tests.up.cluster import parent
from tidegate.cli.up.nursery import LOST, Nursery
from tidegate.cli.up.processes import ChildKeepsDying, ProcessSpec, ProcessTree

CHECK = """
import os, threading
before = set(os.listdir("/proc/self/fd"))
from tidegate.cli.up import preloaded
opened = set(os.listdir("/proc/self/fd")) - before
print([t.name for t in threading.enumerate()], len(os.listdir("/proc/self/task")), opened)
"""

ASKS = """
import asyncio, sys
from multiprocessing import forkserver
from pathlib import Path
from tidegate.cli.up.nursery import Nursery

connect = forkserver.connect_to_new_process

def connected(descriptors):
    pipes = connect(descriptors)
    print("asked", flush=True)  # and the answer comes once the server has imported everything
    return pipes

forkserver.connect_to_new_process = connected
asyncio.run(Nursery().fork(["engine-sim", "--port", "0", "--model", "m"], Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def tree(nursery: Nursery, said: list[str]) -> AsyncIterator[ProcessTree]:
    one = ProcessTree(said.append, restart=True, nursery=nursery)
    yield one
    one.failed.cancel()
    await one.stop()


def engine(folder: Path, name: str = "one", port: int | None = None, **more: str) -> ProcessSpec:
    arguments = ["engine-sim", "--host", "127.0.0.1", "--port", str(port or take_free_port()), "--model", "m"]
    argv = [sys.executable, "-m", "tidegate.cli.main", *arguments]
    return ProcessSpec(name, argv, folder / f"{name}.log", more, tidegate=arguments)


async def serving(tree: ProcessTree, spec: ProcessSpec, times: int = 1) -> int:
    """Its process id, once it has said that many times that it listens."""

    def says() -> bool:
        return spec.log.exists() and spec.log.read_text().count("engine-sim listens") >= times

    await until(says, what=f"{spec.name} serving")
    return tree.pids()[spec.name]


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def open_files(pid: int) -> set[str]:
    return {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def every_child(pid: int) -> set[int]:
    """Also those that another thread than the first started."""
    listed = (task / "children" for task in Path(f"/proc/{pid}/task").iterdir())
    return {int(one) for children in listed for one in children.read_text().split()}


def test_a_fork_server_that_still_imports_ends_when_who_asked_for_a_child_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKS, str(tmp_path / "one.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as asking:
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == b"asked\n"
            begun = every_child(asking.pid)
        finally:
            asking.kill()
    assert len(begun) == 2  # the library's resource tracker is the other
    wait_until(lambda: not any(map(alive, begun)), what="both ending by themselves")


def test_nothing_runs_in_the_fork_server_before_it_forks() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout == "['MainThread'] 1 set()\n"


async def test_each_child_has_a_process_a_session_and_a_title_of_its_own(tree: ProcessTree, tmp_path: Path) -> None:
    specs = [engine(tmp_path, name) for name in ("one", "two")]
    for spec in specs:
        tree.start(spec)
    one, two = [await serving(tree, spec) for spec in specs]
    assert one != two
    assert parent(one) == parent(two) != os.getpid()
    assert [os.getsid(pid) for pid in (one, two)] == [one, two]
    assert [title(pid) for pid in (one, two)] == [" ".join(["tidegate", *spec.tidegate]) for spec in specs]


async def test_a_child_inherits_no_file_of_ours(tree: ProcessTree, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("wb") as lock, socket.create_server(("127.0.0.1", 0)) as ours:
        fcntl.flock(lock, fcntl.LOCK_EX)
        spec = engine(tmp_path)
        tree.start(spec)
        pid = await serving(tree, spec)
        mine = str(Path(f"/proc/self/fd/{ours.fileno()}").readlink())
        assert not open_files(pid) & {str(tmp_path / "lock"), mine}
        assert not open_files(parent(pid)) & {str(tmp_path / "lock"), mine}


async def test_a_killed_child_is_replaced_and_its_sibling_is_not(
    tree: ProcessTree, tmp_path: Path, said: list[str]
) -> None:
    one, _ = specs = [engine(tmp_path, name) for name in ("one", "two")]
    for spec in specs:
        tree.start(spec)
    killed, other = [await serving(tree, spec) for spec in specs]
    os.kill(killed, signal.SIGKILL)
    assert await serving(tree, one, times=2) != killed
    assert tree.pids()["two"] == other
    assert said == ["one ended (SIGKILL); starting it again"]


async def test_a_killed_fork_server_is_replaced_and_so_are_its_children(
    tree: ProcessTree, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.cli.up.nursery.ORPHAN_SECONDS", 60.0)
    specs = [engine(tmp_path, name) for name in ("one", "two")]
    for spec in specs:
        tree.start(spec)
    old = [await serving(tree, spec) for spec in specs]
    server = parent(old[0])
    os.kill(server, signal.SIGKILL)
    new = [await serving(tree, spec, times=2) for spec in specs]
    assert not set(new) & set(old)
    assert not any(map(alive, old))
    assert parent(new[0]) == parent(new[1]) != server
    # Of one that is gone before anybody looks, only that its fork server cannot tell how is known.
    how = f"ended \\((SIGTERM|exit {LOST})\\); starting it again"
    assert len(said) == 2
    assert all(re.fullmatch(f"{name} {how}", text) for name, text in zip(("one", "two"), sorted(said), strict=True))


async def test_a_stopped_child_is_told_to_end_and_the_fork_server_lives_on(tree: ProcessTree, tmp_path: Path) -> None:
    spec = engine(tmp_path)
    tree.start(spec)
    pid = await serving(tree, spec)
    server = parent(pid)
    await tree.stop()
    assert not alive(pid)
    assert alive(server)


async def test_a_tree_that_stops_while_it_starts_leaves_nothing(
    tree: ProcessTree, nursery: Nursery, tmp_path: Path
) -> None:
    spec = engine(tmp_path)
    tree.start(spec)
    pid = await serving(tree, spec)
    hasty = ProcessTree(lambda _: None, restart=True, nursery=nursery)
    for number in range(3):
        hasty.start(engine(tmp_path, str(number)))
    await until((tmp_path / "0.log").exists, what="the first start being under way")
    await hasty.stop()
    assert children(parent(pid)) == [pid]


async def test_a_child_that_refuses_its_flags_fails_the_tree_with_what_it_said(
    tree: ProcessTree, tmp_path: Path
) -> None:
    tree.start(ProcessSpec("bad", (), tmp_path / "bad.log", tidegate=("engine-sim", "--no-such-flag")))
    with pytest.raises(ChildKeepsDying, match=r"refuses to start:\n[\s\S]*no-such-flag"):
        await asyncio.wait_for(asyncio.shield(tree.failed), 60)


async def test_the_traceback_of_a_child_that_crashes_is_in_its_log(
    tree: ProcessTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.cli.up.processes.time", SimpleNamespace(monotonic=lambda: 0.0))  # it dies at once
    tree.start(ProcessSpec("bad", (), tmp_path / "bad.log", tidegate=("engine-sim", 1)))
    with pytest.raises(ChildKeepsDying, match=r"died 5 times at its start:\n[\s\S]*Traceback[\s\S]*TypeError"):
        await asyncio.wait_for(asyncio.shield(tree.failed), 60)


async def test_an_environment_of_its_own_is_read_before_anything_is_imported(tree: ProcessTree, tmp_path: Path) -> None:
    spec = engine(tmp_path, AIOHTTP_NO_EXTENSIONS="1")
    tree.start(spec)
    pid = await serving(tree, spec)
    assert b"AIOHTTP_NO_EXTENSIONS=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert parent(pid) == os.getpid()

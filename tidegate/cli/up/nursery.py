"""Forks the Python children of `tidegate up` from one process that has imported what they need.

multiprocessing's fork server, with what it lacks: it is asked from asyncio, it ends with us, and a child whose fork
server was killed is waited for until it is gone. One thread does all of multiprocessing's bookkeeping, which blocks
while the server imports and is not made for several; the fork server dies with this thread (PR_SET_PDEATHSIG counts
threads), and children die with the fork server.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final, TypeVar

from tidegate.cli.up import service
from tidegate.domain.errors import TidegateError
from tidegate.runtime import backoff_seconds

PRELOADED: Final = "tidegate.cli.up.preloaded"
ATTEMPTS: Final = 5
LOST: Final = 255
"""What multiprocessing says of a process whose fork server is gone."""
ORPHAN_SECONDS: Final = 3.0
"""An orphan's time to end on the SIGTERM that the kernel sends it when its fork server dies."""

T = TypeVar("T")


class NoForkServer(TidegateError):  # noqa: N818 - read as a sentence
    """The fork server ends whenever it is asked for a child."""


class Forked:
    """A child that was forked; it answers to what is used of `asyncio.subprocess.Process`."""

    def __init__(self, process: ForkServerProcess, handle: int | None, exit_code: Callable[[], Awaitable[int]]) -> None:
        self.pid: int = process.pid or 0
        self.returncode: int | None = None
        self._process, self._handle, self._exit_code = process, handle, exit_code
        self._end = asyncio.create_task(self._watch(), name=f"end of {self.pid}")

    async def wait(self) -> int:
        """Its exit code, or the negative number of the signal that ended it."""
        return await asyncio.shield(self._end)

    async def _watch(self) -> int:
        try:
            await _readable(self._process.sentinel)
            code = await self._exit_code()
            if code == LOST and self._handle is not None and not _is_readable(self._handle):
                code = await self._end_orphan(self._handle)
        finally:
            if self._handle is not None:
                os.close(self._handle)
        self.returncode = code
        return code

    async def _end_orphan(self, handle: int) -> int:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_readable(handle), ORPHAN_SECONDS)
            return -signal.SIGTERM
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await _readable(handle)
        return -signal.SIGKILL


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()
    loop.add_reader(descriptor, seen.set)
    try:
        await seen.wait()
    finally:
        loop.remove_reader(descriptor)


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class Nursery:
    """Starts processes by forking. The fork server starts at the first need of it, and again when it was killed."""

    def __init__(self) -> None:
        os.environ["TIDEGATE_UP_PID"] = str(os.getpid())  # read by what is preloaded
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOADED])
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nursery")

    def prepare(self) -> None:
        """Start the fork server, whose imports take a second, without waiting for it."""
        self._thread.submit(forkserver.ensure_running)

    async def fork(self, arguments: Sequence[str], log: Path) -> Forked:
        """Start `tidegate ARGUMENTS…`, whose output is added to `log`. Raises NoForkServer."""
        process, handle = await self._in_thread(lambda: self._start(tuple(arguments), log))
        return Forked(process, handle, lambda: self._in_thread(lambda: _exit_code(process)))

    def _start(self, arguments: tuple[str, ...], log: Path) -> tuple[ForkServerProcess, int | None]:
        for delay in islice(backoff_seconds(), ATTEMPTS):
            process = self._context.Process(target=service.serve, args=(arguments, log), name=arguments[0])
            with contextlib.suppress(EOFError, ConnectionError):  # it is killed at this moment
                process.start()
                return process, _handle_of(process)
            time.sleep(delay)
        raise NoForkServer("the process that forks services ends at once; see what it says above")

    def _in_thread(self, act: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, act)

    def close(self) -> None:
        """End the fork server, and what it forked."""
        self._thread.shutdown()


def _exit_code(process: ForkServerProcess) -> int:
    code = process.exitcode
    assert code is not None
    process.close()
    return code


def _handle_of(process: ForkServerProcess) -> int | None:
    """What tells that exactly this process has ended, also when it is not our child; None: it has."""
    assert process.pid is not None
    try:
        return os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None

"""Children of `tidegate up`: started, restarted when they die, ended together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidegate.cli.up.nursery import Nursery
from tidegate.domain.errors import TidegateError
from tidegate.runtime import backoff_seconds, die_with_parent

TERM_SECONDS = 3.0
EARLY_DEATHS = 5
USAGE_ERROR = 2
LOG_TAIL_BYTES = 2000


class ChildKeepsDying(TidegateError):  # noqa: N818 - read as a sentence
    """A child refused its flags, or died several times right after its start; its log's end is in the text."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One child: `name` is unique, `argv` its command line, `env` is added to ours, `log` gets its output.

    `tidegate` is what follows `tidegate` in a command line of ours: such a child is forked where it can be.
    """

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    tidegate: Sequence[str] = ()


class Process(Protocol):
    """A process that runs or has run: `returncode` is None before its end, and minus the signal that ended it."""

    @property
    def pid(self) -> int:
        """Its process id, and that of its process group."""

    @property
    def returncode(self) -> int | None:
        """See above."""

    async def wait(self) -> int:
        """`returncode`, once it has ended."""


class Child:
    """Keeps one process alive until it is stopped; without `restart`, only says when it ended."""

    def __init__(
        self,
        spec: ProcessSpec,
        say: Callable[[str], None],
        start: Callable[[ProcessSpec], Awaitable[Process]],
        *,
        restart: bool,
    ) -> None:
        self.spec, self._say, self._start, self._restart = spec, say, start, restart
        self.process: Process | None = None
        self.restarts = 0
        self._stopping = False
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The process id, or None while there is no process."""
        return self.process.pid if self.process and self.process.returncode is None else None

    async def keep_alive(self) -> None:
        """Start the process and start it again whenever it ends. Raises ChildKeepsDying."""
        delays, early = backoff_seconds(0.1, 2.0, 1.0), 0
        while process := await self._launch():
            started = time.monotonic()
            code = await process.wait()
            if self._stopping:
                return
            if code == USAGE_ERROR:
                raise ChildKeepsDying(f"{self.spec.name} refuses to start:\n{self._log_tail()}")
            lived = time.monotonic() - started
            early = early + 1 if lived < 2.0 else 0
            if early >= EARLY_DEATHS:
                raise ChildKeepsDying(f"{self.spec.name} died {early} times at its start:\n{self._log_tail()}")
            if not self._restart:
                self._say(f"{self.spec.name} ended ({_how(code)}) and stays so")
                return
            if lived > 10.0:
                delays = backoff_seconds(0.1, 2.0, 1.0)
            self.restarts += 1
            self._say(f"{self.spec.name} ended ({_how(code)}); starting it again")
            await asyncio.sleep(next(delays))

    async def _launch(self) -> Process | None:
        """A process; None once it is to stop."""
        async with self._starting:
            if self._stopping:
                return None
            self.process = await self._start(self.spec)
            return self.process

    def _log_tail(self) -> str:
        return self.spec.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def announce_stop(self) -> None:
        """No restart from here on."""
        self._stopping = True

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL after TERM_SECONDS, to the process and its own children."""
        self.announce_stop()
        async with self._starting:  # a start under way ends with a process
            pass
        if self.pid is None or self.process is None:
            return
        for signum, patience in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, 1.0)):
            _send(self.process.pid, signum)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), patience)
                break


async def execute(spec: ProcessSpec) -> Process:
    """Start a child of any program."""
    with spec.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *spec.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **spec.env},
            start_new_session=True,  # Ctrl-C reaches `tidegate up` alone, which ends them in order
            preexec_fn=die_with_parent,
        )


def _send(pid: int, signum: signal.Signals) -> None:
    """To the process's group; to it alone where it was forked a moment ago and has no group yet."""
    try:
        os.killpg(pid, signum)
    except ProcessLookupError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


class ProcessTree:
    """All children of one `tidegate up`."""

    def __init__(self, say: Callable[[str], None], *, restart: bool, nursery: Nursery | None = None) -> None:
        self._say, self._restart, self._nursery = say, restart, nursery
        self.children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, spec: ProcessSpec) -> None:
        """Start a child and keep it alive."""
        child = Child(spec, self._say, self._begin, restart=self._restart)
        self.children[spec.name] = child
        task = asyncio.create_task(child.keep_alive(), name=spec.name)
        task.add_done_callback(self._on_done)
        self._tasks[spec.name] = task

    async def _begin(self, spec: ProcessSpec) -> Process:
        """Forked where that is possible. An environment of its own wants an exec: modules read it when imported."""
        if self._nursery is None or not spec.tidegate or spec.env:
            return await execute(spec)
        spec.log.touch()
        return await self._nursery.fork(spec.tidegate, spec.log)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) and not self.failed.done():
            self.failed.set_exception(error)

    def pids(self) -> dict[str, int]:
        """name → process id of each child that lives."""
        return {name: child.pid for name, child in self.children.items() if child.pid is not None}

    async def stop(self) -> None:
        """End every child at once; none is left when this returns."""
        for child in self.children.values():
            child.announce_stop()
        await asyncio.gather(*(child.stop() for child in self.children.values()))
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

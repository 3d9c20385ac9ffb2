"""The agent's side of NVML: owns the one process that calls the driver, and says how old its last word is.

At most one process lives, and at most one call is outstanding, however long the driver hangs: a process that hangs is
waited for, since its call may return. One that died is started again, ever more rarely.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

import metrics_agent
from metrics_agent.gpu.port import GpuReading, NvmlState
from metrics_agent.gpu.protocol import decode
from metrics_agent.gpu.roster import Roster, state_of
from tidegate.runtime import backoff_seconds, now_ms

MOST_INTERVAL_SECONDS: Final = 0.1
DEADLINE_SECONDS: Final = 2.0
STALE_INTERVALS: Final = 5
BIRTH_SECONDS: Final = 10.0
STOP_SECONDS: Final = 1.2
LAST_SECONDS: Final = 0.2
LEFT_BEHIND: Final = -1
POLL_SECONDS: Final = 0.02
RESTART_SECONDS: Final = (5.0, 2.0, 60.0)  # first, factor, most
WELL_SECONDS: Final = 60.0
NEVER: Final = float("inf")
READ_BYTES: Final = 1 << 16
WORKER: Final = ("-m", "metrics_agent.gpu.worker")

log = structlog.get_logger("metrics_agent.gpu")


class NvmlGpus:
    """A GpuReader on the node's driver, read every `interval_seconds`, at most 0.1.

    A reading that is five intervals overdue is `stale`; after `deadline_seconds` of silence the driver is `hung` and
    the values of its cards are unknown. Use from one event loop.
    """

    def __init__(self, interval_seconds: float, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._interval, self._deadline = min(interval_seconds, MOST_INTERVAL_SECONDS), deadline_seconds
        self._roster = Roster()
        self._newest = GpuReading()
        self._due = self._fresh_until = NEVER
        self._process: subprocess.Popen[bytes] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._spoke = False

    def start(self) -> None:
        """Start the process, and the task that owns it."""
        self._owner = asyncio.get_running_loop().create_task(self._keep_one(), name="nvml")

    def latest(self) -> GpuReading:
        """The newest reading, marked `stale` when the next is overdue; without values when the driver is `hung`."""
        now = time.monotonic()
        if now > self._due + self._deadline:
            hung = NvmlState.HUNG
            return GpuReading(hung, self._roster.unknown(hung), self._newest.read_at_ms)
        return replace(self._newest, nvml=NvmlState.STALE) if now > self._fresh_until else self._newest

    async def stop(self) -> None:
        """Let the process shut NVML down; wait for it at most 1.4 s. A call that hangs is never killed."""
        self._stopping.set()
        if self._owner is None or self._owner.done():
            return
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            if not self._spoke:
                self._process.terminate()  # it has not called the driver yet
        done, _ = await asyncio.wait([self._owner], timeout=STOP_SECONDS)
        if not done:
            await self._leave_behind(self._owner)

    async def _leave_behind(self, owner: asyncio.Task[None]) -> None:
        """SIGTERM ends a process that still loads the library; a later one finishes its call first, some day."""
        if self._process is not None:
            self._process.terminate()
        done, _ = await asyncio.wait([owner], timeout=LAST_SECONDS)
        if not done and self._process is not None:
            log.warning("the NVML process is left behind: its call does not return", pid=self._process.pid)
            self._process.returncode = LEFT_BEHIND  # nobody here waits for it
        owner.cancel()
        await asyncio.wait([owner])

    async def _keep_one(self) -> None:
        delays = backoff_seconds(*RESTART_SECONDS)
        while not self._stopping.is_set():
            born = time.monotonic()
            try:
                await self._one_life()
            except Exception as exc:  # noqa: BLE001 - a supervisor sees every death
                log.warning("NVML readings failed", error=f"{type(exc).__name__}: {exc}")
            if time.monotonic() - born > WELL_SECONDS:
                delays = backoff_seconds(*RESTART_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next(delays)):
                    await self._stopping.wait()

    async def _one_life(self) -> None:
        """Start a process, take its messages until it ends, and bury it."""
        self._due = time.monotonic() + BIRTH_SECONDS
        try:
            process = self._process = _spawn(self._interval)
            self._spoke = False
        except OSError as exc:
            log.warning("the NVML process does not start", error=str(exc))
            self._failed(NvmlState.ERROR, now_ms())
            self._due = NEVER
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            await _read_lines(process.stdout.fileno(), self._take)
        code = await _exit_code(process)
        if code != 0 and not self._stopping.is_set():
            log.warning("the NVML process died", code=code)
            self._failed(NvmlState.CRASHED, now_ms())
        self._due = self._fresh_until = NEVER

    def _take(self, line: bytes) -> None:
        message = decode(line)
        if message is None:
            return
        self._spoke, now = True, time.monotonic()
        self._due, self._fresh_until = now + message.quiet_seconds, NEVER
        if message.nvml == NvmlState.OK:
            gpus = self._roster.complete(message.gpus)
            self._fresh_until = now + STALE_INTERVALS * self._interval
            self._keep(GpuReading(state_of(gpus), gpus, message.read_at_ms))
        elif message.nvml != NvmlState.STARTING:
            self._failed(message.nvml, message.read_at_ms)

    def _failed(self, state: NvmlState, at_ms: int) -> None:
        self._keep(GpuReading(state, self._roster.unknown(state), at_ms))

    def _keep(self, reading: GpuReading) -> None:
        if reading.nvml != self._newest.nvml:
            log.info("GPUs", nvml=reading.nvml, was=self._newest.nvml, cards=len(reading.gpus))
        self._newest = reading


def _spawn(interval_seconds: float) -> subprocess.Popen[bytes]:
    """The worker, with this process' code, environment and standard error. Raises OSError."""
    code = str(Path(metrics_agent.__file__).parents[1])
    path = os.pathsep.join(filter(None, (code, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, *WORKER, str(interval_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    )


async def _read_lines(descriptor: int, take: Callable[[bytes], None]) -> None:
    """Give every whole line to `take`, until the end of the pipe."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    rest = b""

    def readable() -> None:
        nonlocal rest
        chunk = os.read(descriptor, READ_BYTES)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            take(line)
        if not chunk and not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)


async def _exit_code(process: subprocess.Popen[bytes]) -> int:
    while (code := process.poll()) is None:
        await asyncio.sleep(POLL_SECONDS)
    return code

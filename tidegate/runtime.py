"""A process's life: event loop, signals, supervised tasks, backoff.

Every background task has an owner: `Service` starts it, logs and counts its death, restarts it with backoff,
and cancels it at SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from importlib import metadata
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Info

log = structlog.get_logger("tidegate.runtime")

_PR_SET_PDEATHSIG = 1


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def version() -> str:
    """Tidegate's version as it was installed; `unknown` for a checkout that is not."""
    try:
        return metadata.version("tidegate")
    except metadata.PackageNotFoundError:
        return "unknown"


def die_with_parent() -> None:
    """In a child, before it runs: ask Linux for a SIGTERM when the parent dies, however it dies."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def backoff_seconds(first: float = 0.1, factor: float = 2.0, most: float = 2.0) -> Iterator[float]:
    """first, first·factor, … and then `most` for ever."""
    delay = first
    while True:
        yield min(delay, most)
        delay = min(delay * factor, most)


class Service:
    """Supervises the tasks of one process until it is told to stop."""

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self.name = name
        self.stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        Info("tidegate_build", "What runs here", registry=registry).info({"version": version()})
        self._restarts = Counter(
            "tidegate_task_restarts_total",
            "Background tasks that died and were restarted",
            ["task"],
            registry=registry,
        )

    def spawn(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run `run()` for ever: when it raises or returns, log, count, wait (0.1 … 2 s) and start it again.

        Whoever cancels the task ends it before the service does.
        """
        task = asyncio.create_task(self._supervise(name, run), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _supervise(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        delays, started, said = backoff_seconds(), time.monotonic(), ""
        while True:
            cause = "it returned"
            try:
                await run()
            except Exception as exc:  # noqa: BLE001 - a supervisor sees every death
                cause = f"{type(exc).__name__}: {exc}"
            if cause != said:  # every death is counted, the same cause is said once
                log.warning("task ended; it is started again until it stays", task=name, cause=cause)
                said = cause
            self._restarts.labels(name).inc()
            if time.monotonic() - started > 10:
                delays, said = backoff_seconds(), ""
            await asyncio.sleep(next(delays))
            started = time.monotonic()

    def stop(self) -> None:
        """Ask the process to end."""
        self.stopping.set()

    async def run_until_stopped(self) -> None:
        """Wait for SIGTERM, SIGINT or `stop()`, then cancel every task and wait for it."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self.stop)
        try:
            await self.stopping.wait()
        finally:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a service's coroutine on uvloop where it is installed, on asyncio's loop elsewhere.

    What was imported lives as long as the process: no collection of garbage looks at it again.
    """
    gc.freeze()
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())

"""`tidegate ext-proc --workers N`: a parent that starts N processes, keeps them and ends them with itself.

    --listen HOST:PORT   all workers (SO_REUSEPORT: the kernel gives each connection to one of them)
    HOST:PORT+1 … +N     worker 1 … N alone, so that Envoy can spread requests, which it cannot over one port
    --metrics-listen     the parent: one page of all workers

Envoy keeps one HTTP/2 connection a thread and host, so that one port means one worker for each of its threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Gauge

from ext_proc.worker import USAGE_ERROR, WorkerOrder
from ext_proc.workers_page import WorkersPage
from tidegate.domain.errors import ConfigError, TidegateError
from tidegate.domain.topology import split_listen
from tidegate.runtime import Service, die_with_parent
from tidegate.settings.config_file import load
from tidegate.settings.services import ExtProcSettings
from tidegate.telemetry import configure_logs

log = structlog.get_logger("ext_proc.workers")

END_SECONDS: Final = 5.0
"""From SIGTERM to SIGKILL: longer than a worker drains and lets streams end."""
ANY_PORT: Final = "127.0.0.1:0"


class WorkerEnded(TidegateError):  # noqa: N818 - read as a sentence
    """A worker is no more; it is started again."""


class Worker:
    """One process. `run` is an endless task for `Service.spawn`; `metrics` is its page's address while it serves."""

    def __init__(self, order: WorkerOrder) -> None:
        self.order = order
        self.metrics: str | None = None
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.process: asyncio.subprocess.Process | None = None
        self._served = False

    async def run(self) -> None:
        """Start the process and wait for its end, which is always an error. Cancelled, it ends the process first."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ext_proc.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which ends all in order
            preexec_fn=die_with_parent,
        )
        try:
            await self._tell(self.process)
            code = await self.process.wait()
        finally:
            self.metrics = None
            await _end(self.process)
        if code == USAGE_ERROR and not self._served and not self.refused.done():
            self.refused.set_result(None)
        raise WorkerEnded(f"worker {self.order.number} ended with {code}")

    async def _tell(self, process: asyncio.subprocess.Process) -> None:
        """Its order in, its addresses out. An empty line means that it ended before it served."""
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(self.order.encode())
            await process.stdin.drain()
            process.stdin.close()
        if line := await process.stdout.readline():
            self.metrics = msgspec.json.decode(line, type=dict[str, str | None])["metrics"]
            self._served = True


async def _end(process: asyncio.subprocess.Process) -> None:
    for signum, patience in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signum)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), patience)
            return


async def serve_workers(settings: ExtProcSettings) -> None:
    """Keep `settings.workers` processes until SIGTERM or SIGINT. Raises ConfigError, also when a port is taken."""
    configure_logs(settings.log_level, settings.log_format)
    if settings.config is None:
        raise ConfigError(["ext-proc needs the configuration file: pass --config FILE"])
    load(settings.config)
    held, listen = hold_port(settings.listen)
    with held:
        workers = [Worker(order) for order in orders(settings, listen)]
        await _keep(workers, settings, listen)


def parent(workers: Sequence[Worker], registry: CollectorRegistry) -> tuple[Service, WorkersPage]:
    """What supervises the workers, and their page; the metrics that are of no worker are on `registry`."""
    service = Service("ext_proc_workers", registry)
    serving = Gauge("tidegate_ext_proc_workers", "Workers that serve", registry=registry)
    serving.set_function(lambda: sum(worker.metrics is not None for worker in workers))
    page = WorkersPage(registry, lambda: {str(w.order.number): w.metrics for w in workers}, service.stopping.is_set)
    return service, page


async def _keep(workers: Sequence[Worker], settings: ExtProcSettings, listen: str) -> None:
    service, page = parent(workers, CollectorRegistry())
    metrics = await page.start(settings.metrics_listen)
    for worker in workers:
        service.spawn(f"worker {worker.order.number}", worker.run)
        worker.refused.add_done_callback(lambda _: service.stop())
    own = [worker.order.own_listen for worker in workers]
    log.info("workers start", listen=listen, workers=len(workers), own=own, metrics=metrics)
    await service.run_until_stopped()
    await page.stop()
    if any(worker.refused.done() for worker in workers):
        raise ConfigError(["a worker refuses what it was told, as said above"])


def orders(settings: ExtProcSettings, listen: str) -> list[WorkerOrder]:
    """One a worker; `listen` is bound by now. Port 0 in the settings gives workers any free ports of their own.

    Raises ConfigError when there are not as many ports behind the one of all.
    """
    host, port = listen.rpartition(":")[0], split_listen(listen)[1]
    chosen = split_listen(settings.listen)[1] != 0
    if chosen and port + settings.workers > 65535:
        raise ConfigError([f"--listen {listen} leaves no room for the ports of {settings.workers} workers behind it"])
    metrics = ANY_PORT if settings.metrics_listen is not None else None
    each = replace(settings, workers=1, listen=listen, metrics_listen=metrics)
    numbers = range(1, settings.workers + 1)
    return [WorkerOrder(number=n, own_listen=f"{host}:{port + n if chosen else 0}", settings=each) for n in numbers]


def hold_port(listen: str) -> tuple[socket.socket, str]:
    """A socket that keeps the port of all for our workers, without listening, and `host:port`, port 0 resolved.

    The first bind finds out whether anybody else has it: SO_REUSEPORT would silently share it with them. Raises
    ConfigError when somebody does.
    """
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
            port = alone.getsockname()[1]
        held = socket.socket(family)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((host, port))
    except OSError as exc:
        raise ConfigError([f"cannot listen on {listen}: {exc.strerror}"]) from exc
    return held, f"{listen.rpartition(':')[0]}:{port}"

"""The `up` subcommand: plan, start, wait until served, then stay until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from tidegate.cli.up import once as one_request
from tidegate.cli.up import registry
from tidegate.cli.up.monitoring import checked_files
from tidegate.cli.up.nursery import Nursery
from tidegate.cli.up.plan import Plan, UpOptions, make_plan, processes, write_files
from tidegate.cli.up.ports import Ports
from tidegate.cli.up.processes import ProcessTree
from tidegate.cli.up.readiness import wait_until_served
from tidegate.domain.errors import ConfigError, StoreError, TidegateError
from tidegate.domain.topology import split_listen
from tidegate.runtime import backoff_seconds
from tidegate.settings.config_file import load
from tidegate.settings.flags import checked
from tidegate.settings.otlp_url import GRPC, PROTOCOLS, parse_otlp_url
from tidegate.settings.redis_url import parse_redis_url
from tidegate.settings.services import LOG_LEVELS, one_of
from tidegate.store.redis import RedisStore
from xds_server.bootstrap import bootstrap_yaml

START_SECONDS = 60.0
MONITORS = ("prometheus", "alertmanager")

console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(sentence: str) -> None:
    """One line for the operator."""
    console.print(f"[dim]tidegate up:[/] {sentence}")


def read_document(config: Path | None) -> dict[str, Any]:
    """The checked configuration as plain values. Raises ConfigError."""
    if config is None:
        text = resources.files("tidegate.cli.up").joinpath("local.yaml").read_text()
    else:
        load(config)
        text = config.read_text()
    document: dict[str, Any] = yaml.safe_load(text.replace("\t", " ") if text.lstrip().startswith("{") else text)
    return document


def up(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="use this file's endpoints instead of simulated engines"),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="write addresses as JSON here once requests are served")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="send one request to each cluster, print a table, end")] = False,
    replicas: Annotated[int, typer.Option(min=1, help="simulated engines a cluster (without --config)")] = 2,
    time_scale: Annotated[float, typer.Option(min=0.01, help="simulated seconds in a real second")] = 1.0,
    envoy_admin: Annotated[
        str, typer.Option(help="host:port of Envoy's admin page", callback=checked(split_listen))
    ] = "127.0.0.1:9901",
    envoy_concurrency: Annotated[int, typer.Option(min=1, help="Envoy worker threads")] = 1,
    ext_proc_workers: Annotated[int, typer.Option(min=1, help="processes of ext_proc")] = 1,
    redis_url: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_REDIS_URL", help="use this running Redis; start none", callback=checked(parse_redis_url)
        ),
    ] = None,
    prometheus: Annotated[
        bool,
        typer.Option("--prometheus", help="start Prometheus and Alertmanager, whose alerts come back to the hooks"),
    ] = False,
    monitoring_files: Annotated[
        Path | None, typer.Option(help="folder with their prometheus/ and alertmanager/ (the checkout's deploy/)")
    ] = None,
    otlp_endpoint: Annotated[
        str | None,
        typer.Option(
            envvar="TIDEGATE_OTLP_ENDPOINT",
            help="http://HOST:PORT of an OpenTelemetry collector, for the spans of Envoy, ext_proc and engines",
            callback=checked(parse_otlp_url),
        ),
    ] = None,
    otlp_protocol: Annotated[
        str,
        typer.Option(
            envvar="TIDEGATE_OTLP_PROTOCOL", help="grpc or http/protobuf", callback=checked(one_of(*PROTOCOLS))
        ),
    ] = GRPC,
    trace_ratio: Annotated[
        float, typer.Option(min=0, max=1, help="part of the requests without a traceparent that are traced")
    ] = 1.0,
    patience: Annotated[float, typer.Option(min=0, help="seconds to wait for replicas that are not ready yet")] = 20.0,
    restart: Annotated[bool, typer.Option("--restart/--no-restart", help="start again what dies")] = True,
    keep_logs: Annotated[Path | None, typer.Option(help="folder for the children's logs and files, kept")] = None,
    log_level: Annotated[
        str, typer.Option(help="level of the services' logs", callback=checked(one_of(*LOG_LEVELS)))
    ] = "info",
) -> None:
    """Run a local cluster: Redis, Envoy, engines and all services, until Ctrl-C."""
    options = UpOptions(
        replicas=replicas,
        time_scale=time_scale,
        envoy_admin=envoy_admin,
        envoy_concurrency=envoy_concurrency,
        ext_proc_workers=ext_proc_workers,
        redis_url=redis_url,
        log_level=log_level,
        expose_routing=once,
        monitoring_files=checked_files(monitoring_files) if prometheus else None,
        otlp_endpoint=otlp_endpoint,
        otlp_protocol=otlp_protocol,
        trace_ratio=trace_ratio,
    )
    document = read_document(config)
    folder = _folder(keep_logs)
    if ready_file and not ready_file.parent.is_dir():
        raise ConfigError([f"--ready-file {ready_file}: there is no folder {ready_file.parent}"])
    ports = Ports(say)
    try:
        plan = make_plan(document, folder, ports, options, local=config is None)
        cluster = LocalCluster(
            plan, source=config, ready_file=ready_file, once=once, patience_seconds=patience, restart=restart
        )
        code = asyncio.run(cluster.run())
    finally:
        ports.release()
        if keep_logs is None:
            shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(code)


def _folder(keep_logs: Path | None) -> Path:
    """The folder of the children's files, absolute: other commands read it from other places."""
    if keep_logs is None:
        return Path(tempfile.mkdtemp(prefix="tidegate-up-"))
    try:
        keep_logs.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError([f"--keep-logs {keep_logs}: {exc.strerror}"]) from exc
    return keep_logs.resolve()


class LocalCluster:
    """One run of `tidegate up`."""

    def __init__(
        self,
        plan: Plan,
        *,
        source: Path | None,
        ready_file: Path | None,
        once: bool,
        patience_seconds: float,
        restart: bool,
    ) -> None:
        self.plan, self.source, self.ready_file, self.once = plan, source, ready_file, once
        self.patience_seconds, self.restart = patience_seconds, restart

    async def run(self) -> int:
        """Run until stopped; the exit code."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(signum, stopped.set)
        write_files(self.plan, bootstrap_yaml(self.plan.xds, self.plan.envoy_admin))
        specs = processes(self.plan)
        nursery = Nursery()
        nursery.prepare()
        tree = ProcessTree(say, restart=self.restart, nursery=nursery)
        try:
            for spec in specs:
                tree.start(spec)
            return await self._until_stopped(tree, stopped)
        finally:
            if self.ready_file:
                self.ready_file.unlink(missing_ok=True)
            await tree.stop()
            nursery.close()

    async def _until_stopped(self, tree: ProcessTree, stopped: asyncio.Event) -> int:
        """Serve; end with the first of: a signal, a child that cannot live, the end of `--once`."""
        serving = asyncio.create_task(self._serve(tree))
        stopping = asyncio.create_task(stopped.wait())
        try:
            waited: set[asyncio.Future[Any]] = {serving, stopping, tree.failed}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if tree.failed.done():
                tree.failed.result()
            return serving.result() if serving.done() else 0
        finally:
            for task in (serving, stopping):
                task.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)
            tree.failed.cancel()

    async def _serve(self, tree: ProcessTree) -> int:
        gateway = self.plan.ready({})["gateway"]
        await self._wait_for_redis()
        await self._wait(gateway)
        if self.once:
            outcomes = await one_request.ask_each(gateway, self.plan.document["clusters"], self.patience_seconds)
            Console().print(one_request.table(outcomes))
            return 0 if outcomes and all(o.ok for o in outcomes) else 1
        ready = self.plan.ready(tree.pids())
        note = registry.announce(ready, self.source)
        try:
            console.print(self._addresses(ready))
            await self._keep_ready_file(tree)
        finally:
            registry.withdraw(note)
        return 0

    async def _wait_for_redis(self) -> None:
        """Retry until Redis answers, saying why it does not; `--once` gives up after its patience."""
        store = RedisStore(self.plan.redis_url)
        said, end = "", time.monotonic() + self.patience_seconds
        try:
            for delay in backoff_seconds():
                try:
                    return await store.ping()
                except StoreError as exc:
                    if self.once and time.monotonic() > end:
                        raise
                    if time.monotonic() - end + self.patience_seconds > 1.0 and str(exc) != said:
                        say(f"{exc}; trying on")
                        said = str(exc)
                    await asyncio.sleep(delay)
        finally:
            await store.close()

    async def _wait(self, gateway: str) -> None:
        with console.status("starting Redis, engines, services and Envoy …"):
            try:
                healthy = await wait_until_served(
                    gateway, deadline_seconds=START_SECONDS, patience_seconds=self.patience_seconds
                )
            except TimeoutError:
                logs = self.plan.folder
                raise TidegateError(
                    f"no request was served within {START_SECONDS:.0f} s; see the logs in {logs}"
                ) from None
        if not healthy:
            say("no cluster has a replica that serves yet (see `tidegate status`); requests get 503 until one does")

    async def _keep_ready_file(self, tree: ProcessTree) -> None:
        """Write the ready file, and again whenever a restart changed a process id; until cancelled."""
        written: dict[str, int] | None = None
        while True:
            pids = tree.pids()
            if pids != written:
                ready = self.plan.ready(pids)
                if self.ready_file:
                    _write_whole(self.ready_file, json.dumps(ready, indent=1))
                registry.announce(ready, self.source)
                written = pids
            await asyncio.sleep(0.1)

    def _addresses(self, ready: dict[str, Any]) -> Table:
        view = Table(title="Tidegate serves; Ctrl-C ends it")
        view.add_column("part")
        view.add_column("address", overflow="fold")
        for name in ("gateway", "envoy_admin", "redis", "xds", "ext_proc", "outcomes", "hooks", *MONITORS):
            if name in ready:
                view.add_row(name, _without_password(ready[name]))
        for name, url in ready["metrics"].items():
            view.add_row(f"metrics of {name}", url)
        for engine in ready["engines"]:
            view.add_row(engine["name"], engine["url"])
        view.add_row("logs", str(self.plan.folder))
        return view


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.split('://')[0]}://…@{tail}" if at else url


def _write_whole(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old or the whole new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        part.unlink()
    part.touch(mode=0o600)  # the Redis URL may hold a password
    part.write_text(text)
    part.replace(path)

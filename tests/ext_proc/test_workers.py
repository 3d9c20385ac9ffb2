"""`tidegate ext-proc --workers N` as processes on a real Redis: one port, one page, and none left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from grpc import aio

from ext_proc.health import EXTERNAL_PROCESSOR
from ext_proc.worker import WorkerOrder
from ext_proc.workers import hold_port, orders
from tests.conftest import RedisServer, wait_until
from tests.ext_proc.parts import body_message
from tests.ports import take_free_port, take_free_row
from tests.processes import alive
from tidegate.domain.errors import ConfigError
from tidegate.settings.services import ExtProcSettings

WORKERS = 3
COUNTED = re.compile(r"^(tidegate_\w+(?:_total|_bucket|_count|_sum)(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


class Crew:
    """The parent under test and the ports that it was told."""

    def __init__(self, redis_url: str, folder: Path, workers: int) -> None:
        self.workers, self.port, self.metrics = workers, take_free_row(workers + 1), take_free_port()
        path, self.log = folder / "tidegate.json", folder / "crew.log"
        clusters = [{"name": "phi-3", "models": ["phi-3"], "endpoints": [{"address": "10.0.0.1:8000"}]}]
        path.write_text(json.dumps({"redis": {"url": redis_url}, "clusters": clusters}))
        command = [sys.executable, "-m", "tidegate.cli.main", "ext-proc", "--config", str(path), "--debug-requests"]
        command += ["--workers", str(workers), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--metrics-listen", f"127.0.0.1:{self.metrics}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}{path}", timeout=60) as page:
            return str(page.read().decode())

    def value(self, series: str) -> float | None:
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.page("/metrics"), re.MULTILINE)
        return float(found[1]) if found else None

    def serving(self) -> bool:
        return self.value("tidegate_ext_proc_workers") == self.workers

    def replaced(self, killed: int) -> bool:
        """Whether all serve, and that process is none of them: a look may miss the moment without it."""
        pids = self.pids()
        return len(pids) == self.workers and killed not in pids and self.serving()

    def decided(self) -> list[float]:
        """Decisions of each worker since it started."""
        series = 'tidegate_ext_proc_worker_decisions_total{worker="%d"}'
        return [self.value(series % number) or 0 for number in range(1, self.workers + 1)]

    def counts(self) -> dict[str, float]:
        """Every series of the page that only ever grows, but those that are of one worker."""
        counted = {series: float(value) for series, value in COUNTED.findall(self.page("/metrics"))}
        return {series: value for series, value in counted.items() if "worker=" not in series}

    def pids(self) -> set[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in listed.split()}

    async def ask(self, port: int, requests: int = 1) -> None:
        """Requests on one connection."""
        async with aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            for _ in range(requests):
                call = channel.stream_stream(f"/{EXTERNAL_PROCESSOR}/Process")()
                await call.write(body_message(json.dumps({"model": "phi-3"}).encode()))
                await call.read()


@contextlib.contextmanager
def started(redis_url: str, folder: Path, workers: int = 2) -> Iterator[Crew]:
    """Workers that serve; all are ended."""
    crew = Crew(redis_url, folder, workers)
    try:
        wait_until(crew.serving, deadline_seconds=60, what="all workers serving")
        yield crew
    finally:
        crew.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            crew.process.wait(60)
        crew.process.kill()
        crew.process.wait()


@pytest.fixture(scope="module")
def crew(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with started(shared_redis.url, tmp_path_factory.mktemp("crew"), WORKERS) as crew:
        yield crew


@pytest.mark.redis
async def test_workers_share_a_port_and_a_page_and_each_has_a_port_of_its_own(crew: Crew) -> None:
    all_together = "tidegate_ext_proc_decision_seconds_count"
    wait_until(lambda: crew.value(all_together) is not None, what="a page")
    before, sum_before = crew.decided(), crew.value(all_together)
    for number in range(1, WORKERS + 1):
        await crew.ask(crew.port + number, requests=3)
    for _ in range(4):
        await crew.ask(crew.port)

    def told() -> list[float]:
        """What each decided since; a worker that is slow to tell is left out of a page."""
        return [now - once for now, once in zip(crew.decided(), before, strict=True)]

    wait_until(lambda: sum(told()) == WORKERS * 3 + 4, what="every decision on the page")
    assert min(told()) >= 3
    wait_until(lambda: crew.value(all_together) == sum_before + WORKERS * 3 + 4, what="their sum")

    def kept() -> bool:
        last = json.loads(crew.page("/debug/last?n=999"))
        return [len(last.get(str(number), "")) for number in range(1, WORKERS + 1)] == crew.decided()

    wait_until(kept, what="every request on the page for debugging")
    assert crew.page("/healthz") == "ok\n"
    assert crew.page("/metrics").count("# TYPE tidegate_ext_proc_decision_seconds histogram") == 1


@pytest.mark.redis
async def test_a_worker_that_dies_is_started_again_and_the_other_serves_on(crew: Crew) -> None:
    killed = min(crew.pids())
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: killed not in crew.pids(), what="one worker gone")
    await crew.ask(crew.port)
    wait_until(lambda: crew.replaced(killed), what="all workers serving again")


@pytest.mark.redis
async def test_no_sum_falls_while_a_worker_is_killed_and_started_again(crew: Crew) -> None:
    before = sum(crew.decided())
    for number in range(1, WORKERS + 1):
        await crew.ask(crew.port + number, requests=number)
    decided = "tidegate_ext_proc_decision_seconds_count"
    looks = [crew.counts()]
    wait_until(lambda: sum(crew.decided()) == before + sum(range(1, WORKERS + 1)), what="every decision on the page")
    looks.append(crew.counts())
    killed = max(crew.pids())
    os.kill(killed, signal.SIGKILL)

    def replaced() -> bool:
        looks.append(crew.counts())
        return crew.replaced(killed)

    wait_until(replaced, what="all workers serving again")
    at_rest = looks[1][decided]
    assert {look[decided] for look in looks[1:]} == {at_rest}
    for number in range(1, WORKERS + 1):
        await crew.ask(crew.port + number)
    wait_until(lambda: crew.value(decided) == at_rest + WORKERS, what="what was asked since")
    looks.append(crew.counts())
    for early, late in pairwise(looks):
        assert {series for series in early if late.get(series, 0) < early[series]} == set()


@pytest.mark.redis
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL], ids=["told", "killed"])
def test_workers_end_with_their_parent(shared_redis: RedisServer, tmp_path: Path, signum: signal.Signals) -> None:
    with started(shared_redis.url, tmp_path) as crew:
        workers = crew.pids()
        crew.process.send_signal(signum)
        code = crew.process.wait(60)
        wait_until(lambda: not any(map(alive, workers)), what="the workers' end")
    assert code == (0 if signum is signal.SIGTERM else -signal.SIGKILL)
    if signum is signal.SIGTERM:
        assert "Traceback" not in crew.log.read_text()


@pytest.mark.redis
def test_a_port_that_a_worker_cannot_have_is_said_and_ends_all(redis_server: RedisServer, tmp_path: Path) -> None:
    port = take_free_row(3)
    with socket.create_server(("127.0.0.1", port + 2)):
        path = tmp_path / "c.json"
        path.write_text(json.dumps({"redis": {"url": redis_server.url}, "clusters": [{"name": "a", "models": ["a"]}]}))
        command = [sys.executable, "-m", "tidegate.cli.main", "ext-proc", "--config", str(path), "--workers", "2"]
        done = subprocess.run(
            [*command, "--listen", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port + 2}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_port_of_all_is_refused_where_somebody_listens() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigError, match="cannot listen"):
            hold_port(f"127.0.0.1:{other.getsockname()[1]}")


def test_any_port_is_one_for_all_and_any_for_each() -> None:
    held, listen = hold_port("127.0.0.1:0")
    with held:
        told = orders(ExtProcSettings(listen="127.0.0.1:0", workers=3), listen)
    assert {order.settings.listen for order in told} == {listen} != {"127.0.0.1:0"}
    assert [order.own_listen for order in told] == ["127.0.0.1:0"] * 3


def test_a_worker_has_the_port_of_its_number_behind_that_of_all() -> None:
    settings = ExtProcSettings(listen="[::1]:18001", workers=2, metrics_listen="0.0.0.0:9000", config=Path("/a.yaml"))
    one, two = orders(settings, settings.listen)
    assert (one.own_listen, two.own_listen) == ("[::1]:18002", "[::1]:18003")
    assert one.settings.metrics_listen == "127.0.0.1:0"
    assert WorkerOrder.decode(one.encode()) == one


def test_ports_beyond_the_last_are_refused() -> None:
    with pytest.raises(ConfigError, match="no room"):
        orders(ExtProcSettings(listen="127.0.0.1:65530", workers=6), "127.0.0.1:65530")

"""`tidegate ext-proc` as a process on a real Redis: it serves, beats, outlives Redis and leaves."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from ext_proc.health import EXTERNAL_PROCESSOR
from tests.conftest import RedisServer, accepts, until, wait_until
from tests.ext_proc.parts import Answer, body_message, sample
from tests.ports import take_free_port
from tidegate.domain.errors import StoreUnavailable
from tidegate.domain.sample import NodeSample, NodeTick
from tidegate.runtime import now_ms
from tidegate.store.redis import RedisStore

pytestmark = pytest.mark.redis
ONE, TWO = "10.0.0.1:8000", "10.0.0.2:8000"


@dataclass
class ExtProc:
    """The process under test and the ports that it was told."""

    process: subprocess.Popen[bytes]
    port: int
    metrics: int

    async def ask(self, model: str) -> Answer:
        async with aio.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call = channel.stream_stream(f"/{EXTERNAL_PROCESSOR}/Process")()
            await call.write(body_message(json.dumps({"model": model}).encode()))
            return Answer.read(await call.read())

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}{path}", timeout=60) as page:
            return str(page.read().decode())


def config(redis_url: str) -> str:
    clusters = [{"name": "phi-3", "models": ["phi-3"], "endpoints": [{"address": ONE}]}]
    return json.dumps({"redis": {"url": redis_url}, "clusters": clusters})


@pytest.fixture
async def store(own_redis: RedisServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(own_redis.url, timeout_seconds=60)
    yield store
    await store.close()


@pytest.fixture
async def ext_proc(own_redis: RedisServer, tmp_path: Path) -> AsyncIterator[ExtProc]:
    file = tmp_path / "tidegate.json"
    file.write_text(config(own_redis.url))
    port, metrics = take_free_port(), take_free_port()
    command = [sys.executable, "-m", "tidegate.cli.main", "ext-proc", "--config", str(file), "--tick-ms", "20"]
    command += ["--listen", f"127.0.0.1:{port}", "--metrics-listen", f"127.0.0.1:{metrics}"]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: accepts(port), what="ext_proc listening")
        yield ExtProc(process, port, metrics)
    finally:
        process.kill()
        process.wait()


async def publish(store: RedisStore, address: str, **fields: int) -> None:
    node = NodeSample(node="n1", sampled_at_ms=now_ms(), seq=1, nvml="no_library", gpus={})
    await store.publish(NodeTick(node=node, endpoints=(sample(address, at_ms=now_ms(), **fields),)), ttl_ms=3000)


async def test_it_picks_by_samples_and_weights_and_keeps_going_without_redis(
    ext_proc: ExtProc, store: RedisStore, own_redis: RedisServer
) -> None:
    async def is_picked() -> bool:
        with contextlib.suppress(StoreUnavailable):  # the first words to a Redis that was started again may find it so
            await publish(store, TWO)
        return (await ext_proc.ask("phi-3")).destinations == [TWO]

    await until(is_picked, what="a registered replica is picked")
    own_redis.stop()
    assert (await ext_proc.ask("phi-3")).cluster == "phi-3"
    assert (await ext_proc.ask("gpt-9")).status == 404
    own_redis.start()
    await until(is_picked, what="picks follow samples once Redis is back")
    assert 'tidegate_ext_proc_refusals_total{reason="model-not-found"} 1.0' in ext_proc.page("/metrics")
    wait_until(lambda: ext_proc.page("/healthz") == "ok\n", what="health once Redis is back")


async def test_it_is_present_until_sigterm_and_exits_0(ext_proc: ExtProc, store: RedisStore) -> None:
    found: list[dict[str, Any]] = []

    async def present() -> bool:
        found[:] = (await store.present()).get("ext_proc", {}).values()
        return bool(found)

    async def gone() -> bool:
        return not await present()

    await until(present, what="presence")
    (info,) = found
    assert info["listen"] == f"127.0.0.1:{ext_proc.port}"
    ext_proc.process.send_signal(signal.SIGTERM)
    wait_until(lambda: ext_proc.process.poll() is not None, what="exit after SIGTERM")
    assert ext_proc.process.returncode == 0
    await until(gone, what="its farewell")

"""xds asks an ext_proc that wants certificates for its health, and goes on asking when they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from tests.conftest import until
from tests.ports import take_free_port
from tests.tls.authority import Authority
from tidegate.grpc_health import HEALTH, Health, health_handlers
from tidegate.grpc_tls import ChannelTls, bind, server_watch
from tidegate.grpc_tls_files import TlsFiles, TlsMetrics, TlsWatch
from xds_server.picker_watch import PickerWatch

NAME = "ext-proc.test"


class ExtProc:
    """gRPC health alone, by mutual TLS."""

    def __init__(self, tls: TlsWatch) -> None:
        self.tls, self.port = tls, take_free_port()
        self._server: Any = None

    async def start(self) -> None:
        self._server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        handlers = {path.rpartition("/")[2]: handler for path, handler in health_handlers(Health()).items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HEALTH, handlers),))
        bind(self._server, f"127.0.0.1:{self.port}", self.tls)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority()
    for name in ("ca.crt", "client-ca.crt"):
        authority.write(tmp_path / name)
    return authority


@pytest.fixture
async def ext_proc(authority: Authority, tmp_path: Path) -> AsyncIterator[ExtProc]:
    pair = authority.leaf(NAME).write(tmp_path, "server")
    metrics = TlsMetrics(CollectorRegistry())
    tls = server_watch(pair.certificate, pair.key, tmp_path / "client-ca.crt", metrics)
    assert tls is not None
    one = ExtProc(tls)
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
def own(authority: Authority, tmp_path: Path) -> TlsWatch:
    """The pair that xds presents."""
    pair = authority.leaf("xds").write(tmp_path, "xds")
    files = TlsFiles("--ext-proc-tls-", pair.certificate, pair.key, tmp_path / "ca.crt")
    return TlsWatch("ext_proc", files, TlsMetrics(CollectorRegistry()))


@pytest.fixture(autouse=True)
def _slow_is_not_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ext_proc that a busy machine keeps from answering is not away: that is refused connections."""
    monkeypatch.setattr("xds_server.picker_watch.PATIENCE_SECONDS", 60.0)


@pytest.fixture
async def told(ext_proc: ExtProc, own: TlsWatch) -> AsyncIterator[list[bool]]:
    """Each change of `away`."""
    told: list[bool] = []
    lookup_found = asyncio.Event()

    async def lookup(_: str) -> list[str]:
        lookup_found.set()
        return ["127.0.0.1"]

    watch = PickerWatch(NAME, ext_proc.port, CollectorRegistry(), lookup, tls=ChannelTls(own, NAME))

    async def changed() -> None:
        told.append(watch.away)

    task = asyncio.create_task(watch.run(changed))
    await lookup_found.wait()
    yield told
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pair_that_changes_is_presented_without_a_round_that_fails(
    ext_proc: ExtProc, own: TlsWatch, told: list[bool], tmp_path: Path
) -> None:
    newer = Authority("newer")
    newer.leaf("xds").write(tmp_path, "xds")
    newer.write(tmp_path / "client-ca.crt")
    ext_proc.tls.look()
    own.look()
    await asyncio.sleep(0)
    assert told == []
    await ext_proc.stop()
    await until(lambda: told == [True], what="away")
    await ext_proc.start()
    await until(lambda: told == [True, False], what="back, by the new pair")


async def test_an_ext_proc_that_does_not_know_our_pair_is_away(
    ext_proc: ExtProc, own: TlsWatch, told: list[bool], tmp_path: Path
) -> None:
    Authority("stranger").leaf("xds").write(tmp_path, "xds")
    own.look()
    await ext_proc.stop()
    await ext_proc.start()
    await until(lambda: told == [True], what="away")

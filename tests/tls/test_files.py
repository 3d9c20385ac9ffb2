"""Which files are taken, and what is said of those that are not."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import pytest
import structlog
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from tests.conftest import until
from tests.tls.authority import Authority, Written, replace
from tests.up.cluster import tidegate
from tidegate.cli.main import app
from tidegate.domain.errors import ConfigError
from tidegate.grpc_tls import ChannelTls, bind
from tidegate.grpc_tls_files import TlsFiles, TlsMetrics, TlsWatch

YESTERDAY = -dt.timedelta(days=1)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def pair(authority: Authority, tmp_path: Path) -> Written:
    return authority.leaf("a.test", lasts=dt.timedelta(hours=10)).write(tmp_path, "server")


def files(pair: Written, ca: Path | None = None) -> TlsFiles:
    return TlsFiles("--tls-", pair.certificate, pair.key, ca, "client-ca")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def watch(pair: Written, registry: CollectorRegistry) -> TlsWatch:
    return TlsWatch("server", files(pair), TlsMetrics(registry))


def counted(registry: CollectorRegistry, name: str) -> float | None:
    return registry.get_sample_value(f"tidegate_tls_{name}", {"pair": "server"})


def test_the_end_of_the_certificate_is_a_metric(watch: TlsWatch, registry: CollectorRegistry) -> None:
    ends = counted(registry, "certificate_not_after_seconds")
    hours = (ends - dt.datetime.now(dt.UTC).timestamp()) / 3600
    assert 9.9 < hours <= 10
    assert watch.not_after_ms == ends * 1000


def test_a_chain_ends_with_its_first_certificate_that_does(authority: Authority, pair: Written, tmp_path: Path) -> None:
    soon = authority.leaf("intermediate", lasts=dt.timedelta(hours=1))
    replace(pair.certificate, pair.certificate.read_bytes() + soon.certificate)
    read = files(pair).read().pair
    assert read.not_after_ms / 1000 - dt.datetime.now(dt.UTC).timestamp() < 3600


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda p, a: p.key.unlink(), r"--tls-key .* cannot be read: no such file or directory"),
        (lambda p, a: p.certificate.write_bytes(b""), r"--tls-cert .* is no PEM file of certificates"),
        (lambda p, a: p.certificate.write_bytes(p.certificate.read_bytes()[:200]), r"--tls-cert .* is no PEM file"),
        (lambda p, a: p.key.write_bytes(b"x"), r"--tls-key .* is no PEM file of a private key"),
        (lambda p, a: p.key.write_bytes(a.leaf("other").key), r"do not fit together"),
        (lambda p, a: a.leaf("a.test", lasts=YESTERDAY).write(p.key.parent, "server"), r"--tls-cert .* has expired"),
    ],
    ids=["missing", "empty", "half", "no key", "another key", "expired"],
)
def test_wrong_files_are_said_in_one_sentence_and_change_nothing(
    wrong, sentence: str, watch: TlsWatch, pair: Written, authority: Authority, registry: CollectorRegistry
) -> None:
    before = watch.material
    wrong(pair, authority)
    with pytest.raises(ConfigError, match=sentence) as caught:
        files(pair).read()
    assert len(caught.value.faults) == 1
    for _ in range(4):
        watch.look()
    assert watch.material is before
    assert (counted(registry, "reload_failures_total"), counted(registry, "reloads_total")) == (1, 0)


def test_a_pair_that_is_whole_at_the_second_look_is_no_failure(
    watch: TlsWatch, pair: Written, authority: Authority, registry: CollectorRegistry
) -> None:
    newer = authority.leaf("a.test")
    replace(pair.key, newer.key)
    watch.look()
    replace(pair.certificate, newer.certificate)
    watch.look()
    assert watch.material.pair.chain == newer.certificate
    assert (counted(registry, "reload_failures_total"), counted(registry, "reloads_total")) == (0, 1)


def test_a_pair_that_became_good_after_a_failure_is_taken(watch: TlsWatch, pair: Written, authority: Authority) -> None:
    replace(pair.certificate, b"half")
    watch.look()
    watch.look()
    newer = authority.leaf("a.test")
    newer.write(pair.key.parent, "server")
    watch.look()
    assert watch.material.pair.chain == newer.certificate


def test_files_that_are_touched_and_hold_the_same_are_no_change(watch: TlsWatch, pair: Written) -> None:
    before = watch.material
    replace(pair.key, pair.key.read_bytes())
    watch.look()
    assert watch.material is before


def test_one_of_a_bundle_of_authorities_may_have_expired(authority: Authority, pair: Written, tmp_path: Path) -> None:
    old = authority.leaf("old", lasts=YESTERDAY).certificate
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(old + authority.pem)
    assert files(pair, bundle).read().ca == old + authority.pem
    bundle.write_bytes(old)
    with pytest.raises(ConfigError, match=r"--tls-client-ca .* has expired"):
        files(pair, bundle).read()


@pytest.fixture
def start(pair: Written, tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """`tidegate SERVICE FLAG …` with a file; {cert} and {key} are the pair's. A start that ends at once."""
    file = tmp_path / "tidegate.yaml"
    file.write_text("clusters: [{name: m, models: [m]}]")

    def arguments(service: str, *flags: str) -> list[str]:
        told = [flag.format(cert=pair.certificate, key=pair.key) for flag in flags]
        return [service, "--config", str(file), "--redis-url", "redis://127.0.0.1:1/0", *told]

    yield arguments
    structlog.reset_defaults()  # a service sends logs to the stderr of the command line that ended


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--tls-cert", "{cert}"), "--tls-cert and --tls-key belong together"),
        (("--tls-client-ca", "{cert}"), "--tls-client-ca needs --tls-cert and --tls-key"),
        (("--tls-cert", "nowhere.crt", "--tls-key", "{key}"), "--tls-cert nowhere.crt cannot be read"),
    ],
    ids=["alone", "no pair", "no file"],
)
@pytest.mark.parametrize("service", ["xds", "ext-proc"])
def test_wrong_flags_end_the_start(
    service: str, flags: tuple[str, ...], sentence: str, start: Callable[..., list[str]]
) -> None:
    ended = CliRunner().invoke(app, start(service, *flags)).exception
    assert isinstance(ended, ConfigError)
    assert sentence in str(ended)


@pytest.mark.parametrize("given", ["--ext-proc-tls-ca", "--envoy-secrets"])
def test_xds_needs_both_sides_of_tls_to_ext_proc(given: str, start: Callable[..., list[str]]) -> None:
    ended = CliRunner().invoke(app, start("xds", given, "{cert}")).exception
    assert isinstance(ended, ConfigError)
    assert "takes both --ext-proc-tls-ca" in str(ended)


def test_a_file_that_is_not_there_is_one_line_and_exit_2(start: Callable[..., list[str]]) -> None:
    done = tidegate(*start("xds", "--tls-cert", "nowhere.crt", "--tls-key", "{key}"))
    assert (done.returncode, done.stderr) == (2, "--tls-cert nowhere.crt cannot be read: no such file or directory\n")


@pytest.fixture
async def port(watch: TlsWatch) -> AsyncIterator[int]:
    """A server that asks nobody for a certificate."""
    server = grpc.aio.server()
    port = bind(server, "127.0.0.1:0", watch)
    await server.start()
    yield port
    await server.stop(0)


async def test_one_way_tls_asks_no_client_for_a_certificate_and_a_channel_takes_new_files(
    authority: Authority, watch: TlsWatch, port: int, tmp_path: Path, registry: CollectorRegistry
) -> None:
    ca = authority.write(tmp_path / "ca.crt")
    trust = TlsWatch("client", TlsFiles("--tls-", None, None, ca), TlsMetrics(CollectorRegistry()))
    client = ChannelTls(trust, "a.test")

    async def connects() -> bool:
        async with client.channel(f"127.0.0.1:{port}", ()) as channel:
            try:
                await asyncio.wait_for(channel.channel_ready(), 2)
            except TimeoutError:
                return False
            return True

    await until(connects, what="a connection")
    other = Authority("other")
    other.leaf("a.test").write(tmp_path, "server")
    watch.look()
    assert not await connects()
    other.write(ca)
    trust.look()
    await until(connects, what="the new authority is trusted")

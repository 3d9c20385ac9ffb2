"""The agent scrapes the engines of a cluster with `tls` by https."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from metrics_agent.scrape.http import HttpPages, ScrapeFailedError
from metrics_agent.scrape.tls import EngineTls
from metrics_agent.targets import Target
from tests.tls.authority import Authority, Written
from tests.tls.engine import Engine
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Cluster, Topology
from tidegate.domain.upstream import UpstreamTls


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority()
    authority.write(tmp_path / "ca.crt")
    return authority


@pytest.fixture
def pair(authority: Authority, tmp_path: Path) -> Written:
    return authority.leaf("engines.test").write(tmp_path, "engine")


@pytest.fixture
def engine(authority: Authority, pair: Written, tmp_path: Path) -> Iterator[Engine]:
    """Asks for a certificate of the same authority."""
    engine = Engine(pair, tmp_path / "ca.crt")
    yield engine
    engine.stop()


def trusting(tmp_path: Path, name: str = "engines.test", ca: str = "ca.crt") -> EngineTls:
    pair = {"cert": str(tmp_path / "engine.crt"), "key": str(tmp_path / "engine.key")}
    tls = UpstreamTls(name=name, ca=str(tmp_path / ca), **pair)
    return EngineTls(Topology((Cluster("m", ("m",), tls=tls), Cluster("plain", ("p",)))))


@pytest.fixture
async def opened() -> AsyncIterator[list[HttpPages]]:
    opened: list[HttpPages] = []
    yield opened
    for pages in opened:
        await pages.close()


async def page(opened: list[HttpPages], tls: EngineTls, address: str, cluster: str = "m") -> int:
    tls.watched(Target(cluster, address))
    opened.append(HttpPages(60.0, tls_of=tls.of))
    return (await opened[-1].get(address, "/metrics")).status


async def test_an_https_engine_is_read(engine: Engine, tmp_path: Path, opened: list[HttpPages]) -> None:
    assert await page(opened, trusting(tmp_path), engine.address) == 200


async def test_engines_of_other_clusters_are_read_by_http(
    pair: Written, tmp_path: Path, opened: list[HttpPages]
) -> None:
    plain = Engine()
    assert await page(opened, trusting(tmp_path), plain.address, "plain") == 200
    plain.stop()


async def test_an_engine_of_another_name_or_authority_is_not_read(
    engine: Engine, tmp_path: Path, opened: list[HttpPages]
) -> None:
    Authority("stranger").write(tmp_path / "stranger.crt")
    for tls in (trusting(tmp_path, name="other.test"), trusting(tmp_path, ca="stranger.crt")):
        with pytest.raises(ScrapeFailedError, match="broken"):
            await page(opened, tls, engine.address)
    assert engine.requests == 0


async def test_an_authority_that_changes_is_read_again_and_a_bad_one_is_not_taken(
    engine: Engine, tmp_path: Path, opened: list[HttpPages]
) -> None:
    tls = trusting(tmp_path)
    (tmp_path / "ca.crt").write_bytes(b"half")
    assert await page(opened, tls, engine.address) == 200
    Authority("newer").write(tmp_path / "ca.crt")
    with pytest.raises(ScrapeFailedError, match="broken"):
        await page(opened, tls, engine.address)


def test_a_file_that_is_wrong_at_the_start_is_said(pair: Written, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"clusters\[\]\.tls: .*nowhere\.crt.* cannot be used: no such file"):
        trusting(tmp_path, ca="nowhere.crt")

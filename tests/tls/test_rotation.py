"""Certificates change while a real Envoy serves constant load: no request fails, and new connections take the new ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.conftest import wait_until
from tests.tls.authority import Authority, replace
from tests.tls.world import NAME, World, stat, text_at
from tests.up.cluster import Load

pytestmark = [pytest.mark.envoy, pytest.mark.redis]
SERVICES = ("xds", "ext-proc")
BODY = {"model": "https", "messages": []}


@pytest.fixture
def load(world: World) -> Iterator[Load]:
    """Requests until the test ends; every one of them is answered."""
    with Load(world.gateway, BODY, threads=2) as load:
        wait_until(lambda: load.statuses["200"] > 10, what="load")
        yield load
        before = load.statuses["200"]
        wait_until(lambda: load.statuses["200"] > before + 10, what="load after all")
    assert set(load.statuses) == {"200"}


def reloads(world: World, pair: str = "server") -> list[float]:
    return [world.metric(service, f'tidegate_tls_reloads_total{{pair="{pair}"}}') for service in SERVICES]


def serials(world: World) -> set[int]:
    """Of the client certificates that Envoy holds."""
    found = json.loads(text_at(world.admin, "/certs"))["certificates"]
    return {int(chain["serial_number"], 16) for one in found for chain in one.get("cert_chain", [])}


def test_a_new_pair_of_the_servers_is_shown_in_new_handshakes(world: World, load: Load) -> None:
    before = reloads(world)
    pair = world.authority.leaf(NAME)
    pair.write(world.folder, "server")
    ports = {world.xds_port, world.ext_proc_port}
    wait_until(lambda: {world.serial(port) for port in ports} == {pair.serial}, what="the new certificate")
    wait_until(lambda: reloads(world) == [one + 1 for one in before], what="one change counted")


def test_a_pair_that_does_not_fit_leaves_the_last_good_one_and_is_said_once(world: World, load: Load) -> None:
    good, other = world.serial(world.xds_port), world.authority.leaf(NAME)
    failures = 'tidegate_tls_reload_failures_total{pair="server"}'
    certificate = world.server_pair.certificate.read_bytes()
    before = {service: world.metric(service, failures) for service in SERVICES}
    said = refused(world)
    replace(world.server_pair.certificate, other.certificate)
    try:
        for service in SERVICES:
            wait_until(lambda s=service: world.metric(s, failures) > before[s], what=f"{service} says so")
        assert {world.serial(port) for port in (world.xds_port, world.ext_proc_port)} == {good}
        wait_until(lambda: len(refused(world)) > len(said), what="the log says so")
    finally:
        replace(world.server_pair.certificate, certificate)
    assert {service: world.metric(service, failures) for service in SERVICES} == {s: before[s] + 1 for s in SERVICES}
    assert refused(world)[:-1] == said
    assert "do not fit together" in refused(world)[-1]


def refused(world: World) -> list[str]:
    """What xds says in its log of pairs that it does not take."""
    return [line for line in world.log("xds").splitlines() if "new certificates are not taken" in line]


def test_the_authority_changes_by_way_of_both(world: World, load: Load) -> None:
    """Both are trusted on each side until everyone has a pair of the newer one: servers, Envoy, and xds as a client."""
    newer, moment = Authority("newer"), time.monotonic()
    try:
        change_authority(world, world.authority, newer)
        world.kill("xds")
        world.start_xds()
        wait_until(lambda: world.metric("xds", "tidegate_xds_streams") == 1, what="Envoy is back, by its new pair")
        wait_until(lambda: world.metric("xds", "tidegate_xds_picker_away") == 0, what="xds seeing ext_proc")
    finally:
        change_authority(world, newer, world.authority)
    assert load.bad_since(moment) == []


def change_authority(world: World, old: Authority, newer: Authority) -> None:
    """`newer` instead of `old` for servers and clients."""
    trust(world, old.pem + newer.pem)
    envoys, servers, before = newer.leaf("envoy"), newer.leaf(NAME), reloads(world) + reloads(world, "ext_proc")[:1]
    envoys.write(world.folder / "envoy", "client")
    newer.leaf("xds").write(world.folder, "xds")
    servers.write(world.folder, "server")
    wait_until(lambda: envoys.serial in serials(world), what="Envoy's new pair")
    wait_until(lambda: taken(world, before), what="the new pairs of xds and ext_proc")
    trust(world, newer.pem)
    stale = old.leaf("anyone")
    for port in (world.xds_port, world.ext_proc_port):
        wait_until(lambda p=port: not world.serves(p, newer, stale), what="the old one is not trusted")
        assert world.serves(port, newer, newer.leaf("anyone"))


def trust(world: World, authorities: bytes) -> None:
    """These and no other, on every side."""
    before, own = reloads(world) + reloads(world, "ext_proc")[:1], secrets_read(world)
    replace(world.folder / "client-ca.crt", authorities)
    replace(world.folder / "ca.crt", authorities)
    wait_until(lambda: taken(world, before), what="xds and ext_proc trust them")
    wait_until(lambda: all(a > b for a, b in zip(secrets_read(world), own, strict=True)), what="Envoy trusts them")


def taken(world: World, before: list[float]) -> bool:
    """Whether each of the services' files was read again: server pairs, and xds' as a client."""
    return all(a > b for a, b in zip(reloads(world) + reloads(world, "ext_proc")[:1], before, strict=True))


def secrets_read(world: World) -> list[int]:
    """How often Envoy made TLS contexts of its secrets, by cluster."""
    kind = "client_ssl_socket_factory.ssl_context_update_by_sds"
    return [stat(world.admin, f"cluster.{cluster}.{kind}") for cluster in ("xds", "tidegate_ext_proc")]

"""A real Envoy and gRPC clients before xds and ext_proc that ask for certificates."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tests.conftest import wait_until
from tests.tls.authority import Authority
from tests.tls.world import NAME, SERVICES, World, stat
from tidegate.cli.main import app

pytestmark = [pytest.mark.envoy, pytest.mark.redis]


@pytest.fixture(params=["xds", "ext-proc", "outcomes"])
def port(request: pytest.FixtureRequest, world: World) -> int:
    return {"xds": world.xds_port, "ext-proc": world.ext_proc_port, "outcomes": world.outcomes_port}[request.param]


def test_a_request_is_served_end_to_end(world: World) -> None:
    assert world.post("plain").status_code == 200
    assert stat(world.admin, "cluster.xds.ssl.handshake") > 0
    assert stat(world.admin, "cluster.tidegate_ext_proc.ssl.handshake") > 0
    assert stat(world.admin, "cluster.tidegate_ext_proc.ssl.no_certificate") == 0
    wait_until(lambda: world.metric("xds", "tidegate_xds_picker_away") == 0, what="xds seeing ext_proc")


def test_envoy_tells_outcomes_how_requests_end(world: World) -> None:
    address = world.engines["plain"].address
    served = f'tidegate_outcomes_requests_total{{cluster="plain",ending="served",replica="{address}"}}'

    def told() -> bool:
        assert world.post("plain").status_code == 200
        return world.metric("outcomes", served) > 0

    wait_until(told, what="a request is told")
    assert stat(world.admin, "cluster.tidegate_outcomes.ssl.handshake") > 0
    assert stat(world.admin, "cluster.tidegate_outcomes.ssl.no_certificate") == 0


def test_a_client_whose_certificate_the_authority_signed_is_served(world: World, port: int) -> None:
    assert world.serves(port, world.authority, world.authority.leaf("anyone"))


def test_a_client_without_certificate_is_refused(world: World, port: int) -> None:
    assert not world.serves(port, world.authority, None)


def test_a_client_of_another_authority_is_refused(world: World, port: int) -> None:
    assert not world.serves(port, world.authority, Authority("stranger").leaf("anyone"))


def test_plaintext_is_refused(world: World, port: int) -> None:
    assert not world.serves_plaintext(port)


def test_a_client_does_not_take_a_server_of_another_name_or_authority(world: World, port: int) -> None:
    pair = world.authority.leaf("anyone")
    assert not world.serves(port, world.authority, pair, name="other.test")
    assert not world.serves(port, Authority("stranger"), pair)


@pytest.mark.parametrize("kind", ["bare", "stranger", "misnamed", "mistrusting"])
def test_an_envoy_gets_nothing_with_the_wrong_certificates(world: World, kind: str) -> None:
    (world.folder / kind).mkdir()
    stranger = Authority("stranger")
    stranger.write(world.folder / "stranger.crt")
    pair = (stranger if kind == "stranger" else world.authority).leaf(kind).write(world.folder / kind, "client")
    ca, name = "stranger.crt" if kind == "mistrusting" else "ca.crt", "other.test" if kind == "misnamed" else NAME
    admin = world.start_envoy(kind, None if kind == "bare" else pair, ca, name)
    wait_until(lambda: stat(admin, "cluster.xds.upstream_cx_destroy") >= 2, what="two connections that failed")
    verified = {"misnamed": "fail_verify_san", "mistrusting": "fail_verify_error"}
    if kind in verified:
        assert stat(admin, f"cluster.xds.ssl.{verified[kind]}") > 0
    assert stat(admin, "listener_manager.lds.update_success") == 0
    world.kill(kind)


def test_status_says_when_certificates_end(world: World, patient: None) -> None:
    def status(*flags: str) -> str:
        return CliRunner().invoke(app, ["status", "--redis-url", world.redis_url, *flags]).stdout

    def told() -> dict[str, list[int]]:
        """By service, of each instance: one that was killed is told of for some seconds."""
        services = json.loads(status("--json"))["services"]
        return {name: [one["tls_not_after_ms"] for one in services[name.replace("-", "_")]] for name in SERVICES}

    metric = 'tidegate_tls_certificate_not_after_seconds{pair="server"}'
    shown = {service: [round(world.metric(service, metric) * 1000)] for service in SERVICES}
    wait_until(lambda: told() == shown, what="all services telling their certificates' ends")
    assert status().count("certificate until") == 3

"""What Envoy is told of TLS, as messages that are valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from envoy.config.bootstrap.v3 import bootstrap_pb2
from envoy.extensions.resource_monitors.downstream_connections.v3 import downstream_connections_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2, tls_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import json_format

from tests.xds.worlds import CHAT, DESIRED
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Topology
from tidegate.domain.upstream import Http, UpstreamTls
from tidegate.settings.config_file import parse
from xds_server.bootstrap import main
from xds_server.consistency import check
from xds_server.desired import PickerTls
from xds_server.resources import build
from xds_server.resources.tls import SYSTEM_BUNDLE, to_engines, to_picker
from xds_server.type_urls import CLUSTER

REGISTERED = (downstream_connections_pb2, http_protocol_options_pb2)
FILES = [
    "--out",
    "{folder}",
    "--tls-ca",
    "/certs/ca.crt",
    "--tls-cert",
    "/certs/me/a.crt",
    "--tls-key",
    "/certs/me/a.key",
]


def unpacked(transport_socket: Any) -> Any:
    context = tls_pb2.UpstreamTlsContext()
    assert transport_socket.typed_config.Unpack(context)
    return context


def written(tmp_path: Path, *arguments: str) -> tuple[Any, dict[str, Any]]:
    """The TLS context of the bootstrap's cluster, and the secrets by name."""
    main([argument.format(folder=tmp_path) for argument in arguments])
    message = bootstrap_pb2.Bootstrap()
    json_format.ParseDict(yaml.safe_load((tmp_path / "bootstrap.yaml").read_text()), message)
    [cluster] = message.static_resources.clusters
    return unpacked(cluster.transport_socket), {one.stem: _secret(one) for one in tmp_path.glob("*[!p].yaml")}


def _secret(path: Path) -> Any:
    response = json_format.ParseDict(yaml.safe_load(path.read_text()), discovery_pb2.DiscoveryResponse())
    [one] = response.resources
    secret = secret_pb2.Secret()
    assert one.Unpack(secret)
    return secret


def test_the_bootstrap_names_secrets_that_envoy_reads_again(tmp_path: Path) -> None:
    context, secrets = written(tmp_path, "--xds", "xds:18000", *FILES)
    common = context.common_tls_context
    [sds] = common.tls_certificate_sds_secret_configs
    assert (context.sni, list(common.alpn_protocols)) == ("xds", ["h2"])
    assert sds.sds_config.path_config_source.path == f"{tmp_path}/identity.yaml"
    assert set(secrets) == {"authority", "identity"}
    assert secrets["identity"].name == sds.name
    assert secrets["identity"].tls_certificate.watched_directory.path == "/certs/me"
    assert secrets["authority"].validation_context.watched_directory.path == "/certs"


def test_without_a_certificate_envoy_presents_none(tmp_path: Path) -> None:
    context, secrets = written(tmp_path, *FILES[:4], "--tls-name", "10.0.0.1", "--secrets-at", "/etc/envoy")
    common = context.common_tls_context
    [name] = common.combined_validation_context.default_validation_context.match_typed_subject_alt_names
    assert (context.sni, name.matcher.exact, set(secrets)) == ("", "10.0.0.1", {"authority"})
    assert not common.tls_certificate_sds_secret_configs
    authority = common.combined_validation_context.validation_context_sds_secret_config.sds_config
    assert authority.path_config_source.path == "/etc/envoy/authority.yaml"


@pytest.mark.parametrize(
    "arguments",
    [FILES[2:], FILES[:6], [*FILES[:2], *FILES[4:]]],
    ids=["nowhere to write", "no key", "no authority"],
)
def test_what_does_not_fit_together_is_a_usage_error(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        written(tmp_path, *arguments)
    assert "TLS takes --tls-ca and --out" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_ext_proc_is_reached_by_the_same_secrets(tmp_path: Path) -> None:
    _, secrets = written(tmp_path, *FILES)
    context = unpacked(to_picker(PickerTls(name="ext-proc", secrets=f"{tmp_path}/", mutual=True)))
    common = context.common_tls_context
    named = [
        *common.tls_certificate_sds_secret_configs,
        common.combined_validation_context.validation_context_sds_secret_config,
    ]
    assert [one.name for one in named] == ["identity", "authority"]
    assert all(Path(one.sds_config.path_config_source.path).exists() for one in named)
    assert {secret.name for secret in secrets.values()} == {one.name for one in named}


@pytest.mark.parametrize(
    ("tls", "speaks", "expected"),
    [
        (UpstreamTls(name="a.test"), Http.HTTP1, ("a.test", "http/1.1", SYSTEM_BUNDLE, 0)),
        (UpstreamTls(name="a.test", ca="/ca", cert="/c", key="/k"), Http.HTTP2, ("a.test", "h2", "/ca", 1)),
        (UpstreamTls(name="fd00::1"), Http.HTTP1, ("", "http/1.1", SYSTEM_BUNDLE, 0)),
    ],
    ids=["system", "mutual, HTTP/2", "by IP"],
)
def test_an_engine_is_verified_by_authority_and_name(
    tls: UpstreamTls, speaks: Http, expected: tuple[str, str, str, int]
) -> None:
    context = unpacked(to_engines(tls, speaks))
    common = context.common_tls_context
    [alpn] = common.alpn_protocols
    [name] = common.validation_context.match_typed_subject_alt_names
    ca = common.validation_context.trusted_ca.filename
    assert (context.sni, alpn, ca, len(common.tls_certificates)) == expected
    assert name.matcher.exact == tls.name


def test_a_state_with_tls_passes_the_check_before_it_is_served() -> None:
    chat = replace(CHAT, tls=UpstreamTls(name="engines.test"))
    messages = build(replace(DESIRED, clusters=(chat,), ext_proc_tls=PickerTls(name="a.test", secrets="/etc/envoy")))
    check(messages)
    clusters = messages[CLUSTER]
    assert all(one.transport_socket.name == "envoy.transport_sockets.tls" for one in clusters.values())
    assert not any(one.HasField("transport_socket") for one in build(DESIRED)[CLUSTER].values())


def clusters(tls: str) -> Topology:
    return parse(f"clusters: [{{name: m, models: [m], tls: {tls}}}]", "tidegate.yaml").topology


def test_the_file_says_how_engines_are_trusted() -> None:
    [system] = clusters("{name: engines.test}").clusters
    [own] = clusters('{name: "10.0.0.5", ca: /ca.pem, cert: /c.pem, key: /k.pem}').clusters
    assert system.tls == UpstreamTls(name="engines.test")
    assert own.tls == UpstreamTls(name="10.0.0.5", ca="/ca.pem", cert="/c.pem", key="/k.pem")


@pytest.mark.parametrize(
    ("tls", "sentence"),
    [
        ("{}", r"clusters\[0\]\.tls\.name: is missing"),
        ("{name: https://a}", r"clusters\[0\]\.tls\.name: 'https://a' is no name of a server"),
        ("{name: a, cert: /c}", r"clusters\[0\]\.tls: has one of cert and key"),
        ("{name: a, cacert: /c}", r"unknown key"),
    ],
    ids=["nameless", "a URL", "half a pair", "unknown"],
)
def test_a_file_that_is_wrong_says_where(tls: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        clusters(tls)

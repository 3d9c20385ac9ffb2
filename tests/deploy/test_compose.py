"""docker-compose.yml agrees with its schema, the CLI, the configuration files and Envoy's bootstrap."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry

from tests.conftest import EnvoyProcess, wait_until
from tests.deploy.compose import COMPOSE, ROOT, Service, compose, port_of, services
from tidegate.domain.topology import split_address
from tidegate.settings.config_file import load
from tidegate.telemetry import MetricsPage

SERVICES = services()
OURS = [service for service in SERVICES.values() if service.is_ours]
ENGINES = [service for service in OURS if service.words[0] == "engine-sim"]
WATCHED = [service for service in OURS if service not in ENGINES]
GPU = [service for service in SERVICES.values() if service.spec.get("profiles") == ["gpu"]]
BASE_FILE, GPU_FILE = ROOT / "deploy/compose/tidegate.yaml", ROOT / "deploy/compose/tidegate.gpu.yaml"


def name_of(service: Service) -> str:
    return service.name


def health_url(service: Service) -> Any:
    found = re.search(r"http://[^']+", service.spec["healthcheck"]["test"][-1])
    assert found, f"{service.name} has no health URL"
    return urlsplit(found[0])


def endpoints(path: Path) -> list[tuple[str, str]]:
    """(cluster, address) of each endpoint of a file."""
    return [(c.name, e.address) for c in load(path).topology.clusters for e in c.endpoints]


def test_file_keeps_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("service", OURS, ids=name_of)
def test_command_and_flags_exist_in_the_cli(service: Service) -> None:
    assert service.flags


@pytest.mark.parametrize("service", SERVICES.values(), ids=name_of)
def test_mounted_sources_exist(service: Service) -> None:
    for source, _ in service.mounts:
        here = source.startswith(".")
        assert (ROOT / source).exists() if here else source in compose()["volumes"], source


@pytest.mark.parametrize("service", WATCHED, ids=name_of)
def test_configuration_is_mounted_where_the_command_looks(service: Service) -> None:
    assert load(service.host_file(str(service.flags["config"]))).topology.clusters


@pytest.mark.parametrize("service", SERVICES.values(), ids=name_of)
def test_whoever_is_waited_for_has_a_healthcheck(service: Service) -> None:
    for other, how in service.spec.get("depends_on", {}).items():
        lasts = "healthcheck" in SERVICES[other].spec
        assert how["condition"] == ("service_healthy" if lasts else "service_completed_successfully")
        assert lasts or "restart" not in SERVICES[other].spec


@pytest.mark.parametrize("service", WATCHED, ids=name_of)
async def test_healthcheck_asks_the_page_that_a_service_serves(service: Service) -> None:
    url, page = health_url(service), MetricsPage(CollectorRegistry(), lambda: None)
    assert url.port == port_of(service.flags["metrics_listen"])
    address = await page.start("127.0.0.1:0")
    try:
        async with ClientSession() as session, session.get(f"http://{address}{url.path}") as answer:
            assert answer.status == 200
    finally:
        await page.stop()


@pytest.mark.parametrize("service", ENGINES, ids=name_of)
def test_healthcheck_asks_the_port_of_the_engine(service: Service) -> None:
    url = health_url(service)
    assert (url.port, url.path) == (service.flags["port"], "/health")


@pytest.mark.parametrize("service", ENGINES, ids=name_of)
def test_engine_is_an_endpoint_of_the_cluster_with_its_models(service: Service) -> None:
    of_it = [
        c
        for c in load(BASE_FILE).topology.clusters
        if f"{service.name}:{service.flags['port']}" in {e.address for e in c.endpoints}
    ]
    assert len(of_it) == 1
    assert of_it[0].models == tuple(service.flags["model"])
    assert of_it[0].kind == service.flags["kind"]
    assert service.flags["host"] == "0.0.0.0"
    if of_it[0].context_tokens is not None:
        assert of_it[0].context_tokens == service.flags["max_model_len"]


def test_each_simulated_cluster_has_two_engines() -> None:
    counts = {name: 0 for name, _ in endpoints(BASE_FILE)}
    for name, address in endpoints(BASE_FILE):
        counts[name] += split_address(address)[0] in {engine.name for engine in ENGINES}
    assert counts == {"phi-3": 2, "qwen2.5-72b": 2, "sdxl": 2}


def test_envoy_finds_xds_and_xds_names_ext_proc() -> None:
    bootstrap = yaml.safe_load(SERVICES["envoy"].host_file("/etc/envoy/bootstrap.yaml").read_text())
    clusters = bootstrap["static_resources"]["clusters"]
    endpoint = clusters[0]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    address = endpoint["address"]["socket_address"]
    xds, ext_proc = SERVICES["xds"].flags, SERVICES["ext-proc"].flags
    assert (address["address"], address["port_value"]) == ("xds", port_of(xds["listen"]))
    assert split_address(xds["ext_proc"]) == ("ext-proc", port_of(ext_proc["listen"]))


def test_gateway_and_admin_page_are_published() -> None:
    envoy = SERVICES["envoy"]
    bootstrap = yaml.safe_load(envoy.host_file("/etc/envoy/bootstrap.yaml").read_text())
    admin = bootstrap["admin"]["address"]["socket_address"]["port_value"]
    gateway = port_of(yaml.safe_load(BASE_FILE.read_text())["gateway"]["listen"])
    assert envoy.published == {gateway, admin}
    assert f"/dev/tcp/127.0.0.1/{admin}" in envoy.spec["healthcheck"]["test"][-1]


@pytest.mark.envoy
def test_healthcheck_of_envoy_tells_a_live_one_from_none(
    envoy: Callable[[str], EnvoyProcess], free_port: Callable[[], int]
) -> None:
    admin = free_port()
    test = [word.replace("/9901;", f"/{admin};") for word in SERVICES["envoy"].spec["healthcheck"]["test"]]

    def exit_status() -> int:
        return subprocess.run(test[1:], stderr=subprocess.DEVNULL, timeout=60, check=False).returncode

    assert test[0] == "CMD"
    assert exit_status() != 0
    address = {"socket_address": {"address": "127.0.0.1", "port_value": admin}}
    envoy(yaml.safe_dump({"admin": {"address": address}}))
    wait_until(lambda: exit_status() == 0, what="a live Envoy seen by the healthcheck")


def test_bootstrap_is_the_file_that_envoy_reads() -> None:
    words = SERVICES["envoy"].words
    assert words[words.index("--config-path") + 1] in {target for _, target in SERVICES["envoy"].mounts}


@pytest.mark.parametrize("path", [BASE_FILE, GPU_FILE], ids=lambda path: path.name)
def test_redis_of_the_file_is_a_service(path: Path) -> None:
    url = urlsplit(yaml.safe_load(path.read_text())["redis"]["url"])
    assert (url.hostname, url.port) == ("redis", 6379)


def test_profile_gpu_reserves_gpus() -> None:
    assert {"vllm-1", "vllm-2", "agent-gpu"} == {service.name for service in GPU}
    for service in GPU:
        devices = service.spec["deploy"]["resources"]["reservations"]["devices"]
        assert all(d["driver"] == "nvidia" and "gpu" in d["capabilities"] for d in devices)


def test_agent_of_the_profile_sees_gpus_without_computing() -> None:
    agent = SERVICES["agent-gpu"].spec
    assert agent["environment"]["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert agent["deploy"]["resources"]["reservations"]["devices"][0]["count"] == "all"


def test_agent_of_the_profile_watches_the_vllm_containers() -> None:
    agent, topology = SERVICES["agent-gpu"], load(GPU_FILE).topology
    (cluster,) = topology.clusters
    assert {e.node for e in cluster.endpoints} == {agent.flags["node"]}
    for endpoint in cluster.endpoints:
        host, port = split_address(endpoint.address)
        words = SERVICES[host].words
        assert words[words.index("--port") + 1] == str(port)
        assert health_url(SERVICES[host]).port == port
        assert set(cluster.models) <= set(words)


def test_cluster_of_the_profile_is_known_to_xds_and_ext_proc() -> None:
    (cluster,) = load(GPU_FILE).topology.clusters
    known = load(BASE_FILE).topology.cluster(cluster.name)
    assert known is not None
    assert known.models == cluster.models
    assert known.endpoints == ()

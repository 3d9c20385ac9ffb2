"""What docker-compose.yml runs beside Tidegate finds Tidegate, and Tidegate's alerts find their way back."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.deploy.compose import ROOT, Service, port_of, services
from tests.deploy.tools import RULES, alerts
from tidegate.cli.up.monitoring import (
    Monitoring,
    alertmanager_document,
    checked_files,
    monitoring_processes,
    prometheus_document,
)
from tidegate.domain.errors import ConfigError
from tidegate.settings.config_file import load

SERVICES = services()
MONITORING = [service for service in SERVICES.values() if service.spec.get("profiles") == ["monitoring"]]
ENDS_AT_ONCE = "hooks-token"
LOCAL_FILE, COMPOSE_FILE = ROOT / "tidegate/cli/up/local.yaml", ROOT / "deploy/compose/tidegate.yaml"


def document(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def static_targets() -> dict[str, list[str]]:
    """host:port by job, of the jobs with fixed names."""
    jobs = document("deploy/prometheus/prometheus.yml")["scrape_configs"]
    return {
        job["job_name"]: [target for one in job["static_configs"] for target in one["targets"]]
        for job in jobs
        if "static_configs" in job
    }


def hook_route() -> dict[str, Any]:
    (route,) = [
        one
        for one in document("deploy/alertmanager/alertmanager.yml")["route"]["routes"]
        if one["receiver"] == "tidegate"
    ]
    return route


def test_profile_has_prometheus_alertmanager_and_grafana_alone() -> None:
    assert {service.name for service in MONITORING} == {"prometheus", "alertmanager", "grafana"}


@pytest.mark.parametrize("service", MONITORING, ids=lambda service: service.name)
def test_image_is_pinned_and_its_page_is_for_this_machine_alone(service: Service) -> None:
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", service.spec["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.spec["ports"])


def test_each_service_of_ours_is_scraped_at_its_metrics_page() -> None:
    watched = {
        name: s for name, s in SERVICES.items() if s.is_ours and "metrics_listen" in s.flags and name != "agent-gpu"
    }
    ours = {
        name: f"{name}:{port_of(service.flags['metrics_listen'])}"
        for name, service in watched.items()
        if service.flags["metrics_listen"]
    }
    assert {f"tidegate-{name}": [address] for name, address in ours.items()}.items() <= static_targets().items()


def test_envoy_is_scraped_at_its_admin_page() -> None:
    (target,) = static_targets()["tidegate-envoy"]
    assert target.split(":")[0] == "envoy"
    assert port_of(target) in SERVICES["envoy"].published


def test_agent_of_the_gpu_profile_is_no_target_where_it_does_not_run() -> None:
    (agent,) = [
        j for j in document("deploy/prometheus/prometheus.yml")["scrape_configs"] if j["job_name"] == "tidegate-agent"
    ]
    (found,) = agent["dns_sd_configs"]
    assert found["names"] == ["agent-gpu"]
    assert found["port"] == port_of(SERVICES["agent-gpu"].flags["metrics_listen"])


def test_prometheus_finds_alertmanager() -> None:
    alerting = document("deploy/prometheus/prometheus.yml")["alerting"]["alertmanagers"]
    assert alerting == [{"static_configs": [{"targets": ["alertmanager:9093"]}]}]
    assert SERVICES["alertmanager"].published == {9093}


def test_alertmanager_finds_the_hooks_with_the_token_that_they_ask_for() -> None:
    receivers = {one["name"]: one for one in document("deploy/alertmanager/alertmanager.yml")["receivers"]}
    (hook,) = receivers["tidegate"]["webhook_configs"]
    url, flags = urlsplit(hook["url"]), SERVICES["xds"].flags
    assert (url.hostname, url.port, url.path) == ("xds", port_of(flags["hooks_listen"]), "/hooks/alertmanager")
    assert hook["send_resolved"] is True
    assert place(SERVICES["alertmanager"], hook["http_config"]["authorization"]["credentials_file"]) == (
        "hooks",
        "token",
    )
    assert place(SERVICES["xds"], str(flags["hooks_token_file"])) == ("hooks", "token")
    assert "/hooks/token" in SERVICES[ENDS_AT_ONCE].words[-1]


def place(service: Service, path: str) -> tuple[str, str]:
    """The volume and the file in it that a path in the container is."""
    folder, _, name = path.rpartition("/")
    return {at: source for source, at in service.mounts}[folder], name


def test_alerts_that_go_back_are_those_that_rules_name_and_exist() -> None:
    (matcher,) = hook_route()["matchers"]
    sent = set(re.fullmatch(r'alertname =~ "(.+)"', matcher)[1].split("|"))  # type: ignore[index]
    named = {alert for rule in load(ROOT / "deploy/compose/tidegate.yaml").actions.rules for alert in rule.alerts}
    assert sent == named
    assert sent <= set(alerts(*RULES))


def test_what_fires_is_told_again_before_an_act_ends() -> None:
    """Acts last for an hour after the last word (docs/actions.md)."""
    assert hook_route()["repeat_interval"] == "1m"
    assert all(rule.for_ms > 60_000 for rule in load(ROOT / "deploy/compose/tidegate.yaml").actions.rules)


def test_people_hear_of_every_alert() -> None:
    routes = document("deploy/alertmanager/alertmanager.yml")["route"]["routes"]
    (people,) = [route for route in routes if route["receiver"] == "people"]
    assert people["matchers"] == ['alertname =~ "Tidegate.+"']
    assert hook_route()["continue"] is True
    assert all(name.startswith("Tidegate") for name in alerts(*RULES))


def test_grafana_reads_the_provisioned_folders() -> None:
    grafana = SERVICES["grafana"]
    assert grafana.host_file("/etc/grafana/provisioning") == ROOT / "./deploy/grafana/provisioning"
    (provider,) = document("deploy/grafana/provisioning/dashboards/tidegate.yml")["providers"]
    assert grafana.host_file(provider["options"]["path"]) == ROOT / "./deploy/grafana/dashboards"


def test_local_cluster_has_the_jobs_that_alerts_and_dashboards_go_by() -> None:
    metrics = dict.fromkeys(("xds", "ext_proc", "outcomes", "agent"), "127.0.0.1:1")
    shipped = document("deploy/prometheus/prometheus.yml")
    local = prometheus_document(shipped, metrics, "127.0.0.1:2", "127.0.0.1:3")
    assert {job["job_name"] for job in local["scrape_configs"]} == set(static_targets())
    assert local["rule_files"] == shipped["rule_files"]


def test_local_cluster_calls_its_own_hook_without_a_token() -> None:
    local = alertmanager_document(document("deploy/alertmanager/alertmanager.yml"), "http://127.0.0.1:4")
    (hook,) = next(one for one in local["receivers"] if one["name"] == "tidegate")["webhook_configs"]
    assert hook["url"] == "http://127.0.0.1:4/hooks/alertmanager"
    assert "authorization" not in hook["http_config"]
    assert local["route"] == document("deploy/alertmanager/alertmanager.yml")["route"]


def test_local_prometheus_keeps_exemplars_as_that_of_compose_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in ("TIDEGATE_PROMETHEUS", "TIDEGATE_ALERTMANAGER"):
        monkeypatch.setenv(program, sys.executable)
    local = Monitoring(prometheus="127.0.0.1:1", alertmanager="127.0.0.1:2", files=tmp_path)
    (command,) = [one.argv for one in monitoring_processes(local, tmp_path) if one.name == "prometheus"]
    (feature,) = [word for word in SERVICES["prometheus"].words if word.startswith("--enable-feature")]
    assert feature in command


def test_local_cluster_acts_on_the_alerts_that_its_alertmanager_sends() -> None:
    local, compose = (yaml.safe_load(path.read_text())["actions"] for path in (LOCAL_FILE, COMPOSE_FILE))
    assert local == compose


def test_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--prometheus needs .*prometheus\.yml; give --monitoring-files"):
        checked_files(tmp_path)

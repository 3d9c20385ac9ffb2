"""Prometheus and Alertmanager of a local cluster: the files of deploy/, with the addresses of this one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from tidegate.cli.binaries import alertmanager_binary, prometheus_binary
from tidegate.cli.up.processes import ProcessSpec
from tidegate.domain.errors import ConfigError

CHECKOUT_FILES: Final = Path(__file__).parents[3] / "deploy"
# A local cluster is looked at while things happen to it.
SCRAPE_INTERVAL: Final = "1s"
HOOK_RECEIVER: Final = "tidegate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Where both listen (host:port), and the folder whose `prometheus/` and `alertmanager/` they follow."""

    prometheus: str
    alertmanager: str
    files: Path


def checked_files(folder: Path | None) -> Path:
    """The folder, or that of the checkout. Raises ConfigError where what is needed is not there."""
    files = folder or CHECKOUT_FILES
    for needed in ("prometheus/prometheus.yml", "alertmanager/alertmanager.yml"):
        if not (files / needed).is_file():
            raise ConfigError([f"--prometheus needs {files / needed}; give --monitoring-files, or run in a checkout"])
    return files


def prometheus_document(
    shipped: Mapping[str, Any], metrics: Mapping[str, str], envoy_admin: str, alertmanager: str
) -> dict[str, Any]:
    """prometheus.yml with the targets of this cluster. `metrics` are host:port by service."""
    jobs = [_job(f"tidegate-{name.replace('_', '-')}", address) for name, address in metrics.items()]
    envoy = next(dict(job) for job in shipped["scrape_configs"] if job["job_name"] == "tidegate-envoy")
    jobs.append({**envoy, "static_configs": [{"targets": [envoy_admin]}]})
    timing = {
        "scrape_interval": SCRAPE_INTERVAL,
        "scrape_timeout": SCRAPE_INTERVAL,
        "evaluation_interval": SCRAPE_INTERVAL,
    }
    return {
        "global": {**shipped["global"], **timing},
        "rule_files": shipped["rule_files"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": jobs,
    }


def _job(name: str, address: str) -> dict[str, Any]:
    return {"job_name": name, "static_configs": [{"targets": [address]}]}


def alertmanager_document(shipped: Mapping[str, Any], hooks: str) -> dict[str, Any]:
    """alertmanager.yml whose hook is the controller of this cluster, at the URL `hooks`, which asks for no token."""
    receivers = [dict(one) for one in shipped["receivers"]]
    for receiver in receivers:
        if receiver["name"] == HOOK_RECEIVER:
            receiver["webhook_configs"] = [_hook(one, hooks) for one in receiver["webhook_configs"]]
    return {**shipped, "receivers": receivers}


def _hook(shipped: Mapping[str, Any], hooks: str) -> dict[str, Any]:
    http = {name: value for name, value in shipped["http_config"].items() if name != "authorization"}
    return {**shipped, "url": f"{hooks}{urlsplit(shipped['url']).path}", "http_config": http}


def write_monitoring(
    monitoring: Monitoring, folder: Path, metrics: Mapping[str, str], envoy_admin: str, hooks: str
) -> None:
    """Put both files, and the rules beside them, into `folder`."""
    shipped = yaml.safe_load((monitoring.files / "prometheus/prometheus.yml").read_text())
    document = prometheus_document(shipped, metrics, envoy_admin, monitoring.alertmanager)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(document, sort_keys=False))
    shutil.copytree(monitoring.files / "prometheus/rules", folder / "rules", dirs_exist_ok=True)
    shipped = yaml.safe_load((monitoring.files / "alertmanager/alertmanager.yml").read_text())
    document = alertmanager_document(shipped, hooks)
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(document, sort_keys=False))


def monitoring_processes(monitoring: Monitoring, folder: Path) -> list[ProcessSpec]:
    """Both children. Raises BinaryNotFound."""
    prometheus = [str(prometheus_binary()), f"--config.file={folder / 'prometheus.yml'}"]
    prometheus += [f"--web.listen-address={monitoring.prometheus}", f"--storage.tsdb.path={folder / 'prometheus'}"]
    prometheus += ["--enable-feature=exemplar-storage"]
    alertmanager = [str(alertmanager_binary()), f"--config.file={folder / 'alertmanager.yml'}"]
    alertmanager += [f"--web.listen-address={monitoring.alertmanager}", f"--storage.path={folder / 'alertmanager'}"]
    # Alone: no other Alertmanager is looked for on the network.
    alertmanager += ["--cluster.listen-address="]
    return [
        ProcessSpec("alertmanager", alertmanager, folder / "alertmanager.log"),
        ProcessSpec("prometheus", prometheus, folder / "prometheus.log"),
    ]

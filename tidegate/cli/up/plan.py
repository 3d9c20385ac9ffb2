"""What `tidegate up` runs: from a configuration document to addresses and processes. Starts nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidegate.cli.binaries import envoy_binary, redis_server_binary
from tidegate.cli.up.monitoring import Monitoring, monitoring_processes, write_monitoring
from tidegate.cli.up.ports import LOOPBACK, Ports
from tidegate.cli.up.processes import ProcessSpec
from tidegate.settings.otlp_url import GRPC

GATEWAY_PORT, ADMIN_PORT, REDIS_PORT = 10000, 9901, 6379
PROMETHEUS_PORT, ALERTMANAGER_PORT = 9090, 9093
LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Flags of `tidegate up` that shape the plan."""

    replicas: int = 2
    time_scale: float = 1.0
    envoy_admin: str = f"{LOOPBACK}:{ADMIN_PORT}"
    redis_url: str | None = None
    expose_routing: bool = False
    log_level: str = "info"
    envoy_concurrency: int = 1
    ext_proc_workers: int = 1
    monitoring_files: Path | None = None
    otlp_endpoint: str | None = None
    otlp_protocol: str = GRPC
    trace_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One simulated engine of the local cluster."""

    name: str
    cluster: str
    address: str


@dataclass(slots=True, kw_only=True)
class Plan:
    """Addresses of every part, the configuration document all services read, and the engines to simulate."""

    document: dict[str, Any]
    folder: Path
    options: UpOptions
    gateway: str
    envoy_admin: str
    redis_url: str
    own_redis: bool
    xds: str
    ext_proc: str
    outcomes: str
    hooks: str
    metrics: dict[str, str]
    monitoring: Monitoring | None = None
    engines: list[Engine] = field(default_factory=list)

    @property
    def config_path(self) -> Path:
        """Where the document is written for the services."""
        return self.folder / "tidegate.json"

    def ready(self, pids: Mapping[str, int]) -> dict[str, Any]:
        """The content of the ready file."""
        return {
            "gateway": f"http://{_reachable(self.gateway)}",
            "envoy_admin": f"http://{self.envoy_admin}",
            "redis": self.redis_url,
            "xds": self.xds,
            "ext_proc": self.ext_proc,
            "outcomes": self.outcomes,
            "hooks": f"http://{self.hooks}/hooks",
            **self._monitored(),
            "metrics": {name: f"http://{address}/metrics" for name, address in self.metrics.items()},
            "engines": [
                {"name": e.name, "cluster": e.cluster, "address": e.address, "url": f"http://{e.address}"}
                for e in self.engines
            ],
            "config": str(self.config_path),
            "pids": dict(pids),
        }

    def _monitored(self) -> dict[str, str]:
        """Where Prometheus and Alertmanager are, if anywhere."""
        if (monitoring := self.monitoring) is None:
            return {}
        return {"prometheus": f"http://{monitoring.prometheus}", "alertmanager": f"http://{monitoring.alertmanager}"}


def make_plan(checked: Mapping[str, Any], folder: Path, ports: Ports, options: UpOptions, *, local: bool) -> Plan:
    """Choose every address. `checked` is a sound configuration; `local` adds simulated engines to it."""
    document: dict[str, Any] = json.loads(json.dumps(checked))
    gateway = _bind(ports, "the gateway", document.get("gateway", {}).get("listen", f"{LOOPBACK}:{GATEWAY_PORT}"))
    redis_url, own_redis = _redis(ports, document.get("redis", {}).get("url"), options.redis_url)
    plan = Plan(
        document=document,
        folder=folder,
        options=options,
        gateway=gateway,
        envoy_admin=_bind(ports, "Envoy's admin page", options.envoy_admin),
        redis_url=redis_url,
        own_redis=own_redis,
        xds=f"{LOOPBACK}:{ports.want('xds', LOOPBACK, 0)}",
        ext_proc=f"{LOOPBACK}:{_ext_proc_port(ports, options.ext_proc_workers)}",
        outcomes=f"{LOOPBACK}:{ports.any()}",
        hooks=f"{LOOPBACK}:{ports.any()}",
        metrics={name: f"{LOOPBACK}:{ports.any()}" for name in ("xds", "ext_proc", "outcomes", "agent")},
    )
    document.setdefault("redis", {})["url"] = redis_url
    document.setdefault("gateway", {})["listen"] = gateway
    if options.monitoring_files is not None:
        plan.monitoring = _monitoring(ports, options.monitoring_files)
    if options.expose_routing:
        document["gateway"]["expose_routing"] = True
    if local:
        plan.engines = _add_engines(document["clusters"], ports, options.replicas)
    return plan


def _monitoring(ports: Ports, files: Path) -> Monitoring:
    return Monitoring(
        prometheus=f"{LOOPBACK}:{ports.want('Prometheus', LOOPBACK, PROMETHEUS_PORT)}",
        alertmanager=f"{LOOPBACK}:{ports.want('Alertmanager', LOOPBACK, ALERTMANAGER_PORT)}",
        files=files,
    )


def _ext_proc_port(ports: Ports, workers: int) -> int:
    """The port of all workers; those of each follow it."""
    return ports.row(workers + 1) if workers > 1 else ports.want("ext_proc", LOOPBACK, 0)


def _bind(ports: Ports, what: str, listen: str) -> str:
    host, _, port = listen.rpartition(":")
    return f"{host}:{ports.want(what, host.strip('[]'), int(port))}"


def _reachable(listen: str) -> str:
    """An address that a client can use: a wildcard bind is reached by the loopback."""
    host, _, port = listen.rpartition(":")
    return f"{LOOPBACK}:{port}" if host in {"0.0.0.0", "[::]", "::"} else listen


def _redis(ports: Ports, in_file: str | None, existing: str | None) -> tuple[str, bool]:
    """The Redis URL and whether it is ours to start: an existing one and a remote one are not."""
    if existing:
        return existing, False
    parts = urlsplit(in_file or f"redis://{LOOPBACK}:{REDIS_PORT}/0")
    if parts.scheme != "redis" or parts.hostname not in LOOPBACK_HOSTS:
        return parts.geturl(), False
    wanted = REDIS_PORT if parts.port is None else parts.port
    port = ports.want("Redis", LOOPBACK, wanted)
    secret = parts.netloc.rpartition("@")[0]
    netloc = f"{secret}@{LOOPBACK}:{port}" if secret else f"{LOOPBACK}:{port}"
    return parts._replace(netloc=netloc, path=parts.path or "/0").geturl(), True


def _add_engines(clusters: list[dict[str, Any]], ports: Ports, replicas: int) -> list[Engine]:
    engines = []
    for cluster in clusters:
        for number in range(1, replicas + 1):
            address = f"{LOOPBACK}:{ports.any()}"
            engines.append(Engine(name=f"engine-{cluster['name']}-{number}", cluster=cluster["name"], address=address))
        cluster["endpoints"] = [{"address": e.address} for e in engines if e.cluster == cluster["name"]]
    return engines


def write_files(plan: Plan, bootstrap: str) -> None:
    """Put the configuration document and Envoy's bootstrap into the plan's folder (readable by us alone)."""
    plan.config_path.touch(mode=0o600)
    plan.config_path.write_text(json.dumps(plan.document, indent=1))
    (plan.folder / "envoy.yaml").write_text(bootstrap)
    if plan.monitoring is not None:
        write_monitoring(plan.monitoring, plan.folder, plan.metrics, plan.envoy_admin, f"http://{plan.hooks}")


def processes(plan: Plan) -> list[ProcessSpec]:
    """Every child, in starting order. Raises BinaryNotFound."""
    specs = [_redis_process(plan)] if plan.own_redis else []
    specs += [_engine_process(plan, engine) for engine in plan.engines]
    specs += [
        _service(plan, "xds", "xds", ["--listen", plan.xds, "--hooks-listen", plan.hooks, *_called_by_envoy(plan)]),
        _service(plan, "ext_proc", "ext-proc", ["--listen", plan.ext_proc, *_of_ext_proc(plan)]),
        _service(plan, "outcomes", "outcomes", ["--listen", plan.outcomes]),
        _service(plan, "agent", "agent", ["--node", "local", "--all-nodes"]),
        _envoy_process(plan),
    ]
    if plan.monitoring is not None:
        specs += monitoring_processes(plan.monitoring, plan.folder)
    return specs


def _called_by_envoy(plan: Plan) -> list[str]:
    traces = [*_traces(plan), "--trace-ratio", str(plan.options.trace_ratio)]
    return ["--ext-proc", _ext_proc_for_envoy(plan), "--outcomes", plan.outcomes, *traces]


def _of_ext_proc(plan: Plan) -> list[str]:
    return ["--workers", str(plan.options.ext_proc_workers), *_traces(plan)]


def _traces(plan: Plan) -> list[str]:
    endpoint, protocol = plan.options.otlp_endpoint, plan.options.otlp_protocol
    return ["--otlp-endpoint", endpoint, "--otlp-protocol", protocol] if endpoint else []


def _ext_proc_for_envoy(plan: Plan) -> str:
    """Each worker's own port where there are several: over one port, Envoy spreads nothing."""
    workers = plan.options.ext_proc_workers
    host, _, port = plan.ext_proc.rpartition(":")
    return f"{host}:{int(port) + 1}-{int(port) + workers}" if workers > 1 else plan.ext_proc


def _tidegate(name: str, arguments: Sequence[str], plan: Plan) -> ProcessSpec:
    argv = [sys.executable, "-m", "tidegate.cli.main", *arguments]
    return ProcessSpec(name, argv, plan.folder / f"{name}.log", tidegate=arguments)


def _service(plan: Plan, name: str, command: str, arguments: Sequence[str]) -> ProcessSpec:
    of_all = ["--config", str(plan.config_path), "--log-level", plan.options.log_level]
    return _tidegate(name, [command, *of_all, "--metrics-listen", plan.metrics[name], *arguments], plan)


def _redis_process(plan: Plan) -> ProcessSpec:
    parts = urlsplit(plan.redis_url)
    data = plan.folder / "redis"
    data.mkdir(exist_ok=True)
    argv = [str(redis_server_binary()), "--bind", LOOPBACK, "--port", str(parts.port), "--dir", str(data)]
    # The append-only file keeps operators' keys when the server is killed and started again.
    argv += ["--save", "", "--appendonly", "yes"]
    if parts.password:
        argv += ["--requirepass", parts.password]
    return ProcessSpec("redis", argv, plan.folder / "redis.log")


def _engine_process(plan: Plan, engine: Engine) -> ProcessSpec:
    cluster = next(c for c in plan.document["clusters"] if c["name"] == engine.cluster)
    host, _, port = engine.address.rpartition(":")
    argv = ["engine-sim", "--host", host, "--port", port, "--kind", cluster.get("kind", "llm")]
    for model in cluster["models"]:
        argv += ["--model", model]
    argv += ["--time-scale", str(plan.options.time_scale), *_traces(plan)]
    if tokens := cluster.get("context_tokens"):
        argv += ["--max-model-len", str(tokens)]
    return _tidegate(engine.name, argv, plan)


def _envoy_process(plan: Plan) -> ProcessSpec:
    argv = [str(envoy_binary()), "-c", str(plan.folder / "envoy.yaml"), "--disable-hot-restart"]
    argv += ["--concurrency", str(plan.options.envoy_concurrency), "--log-level", "warning"]
    return ProcessSpec("envoy", argv, plan.folder / "envoy.log")

"""One frozen settings object a service. A field's flag is `--its-name`, its environment TIDEGATE_<SERVICE>_ITS_NAME.

`setting()` states what a field does, its unit and why its default is what it is; `docs/settings.md` lists all.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tidegate.domain.topology import split_address, split_listen, split_ports
from tidegate.settings.otlp_url import GRPC, PROTOCOLS, parse_otlp_url
from tidegate.settings.redis_url import parse_redis_url


def setting(default: Any, doc: str, *, check: Callable[[Any], object] | None = None, also: tuple[str, ...] = ()) -> Any:
    """A dataclass field with its documentation. `default` may be a zero-argument callable.

    `check` is called with a value that a flag or variable gives, and raises ValueError with a sentence. `also` are
    further environment variables, by which others know the same thing.
    """
    metadata = {"doc": doc, "check": check, "also": also}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def at_least(least: float) -> Callable[[float], None]:
    """A check that a number is not below `least`."""

    def check(value: float) -> None:
        if not value >= least:
            raise ValueError(f"{value} is too small; the least is {least}")

    return check


def between(least: float, most: float) -> Callable[[float], None]:
    """A check that a number lies in `least`…`most`."""

    def check(value: float) -> None:
        if not least <= value <= most:
            raise ValueError(f"{value} is not between {least} and {most}")

    return check


def one_of(*words: str) -> Callable[[str], None]:
    """A check that a text is one of `words`."""

    def check(value: str) -> None:
        if value not in words:
            raise ValueError(f"{value!r} is none of {', '.join(words)}")

    return check


def port_number(value: int) -> None:
    """A check that a number is a port, or 0 for any free one."""
    if not 0 <= value <= 65535:
        raise ValueError(f"{value} is no port; ports go from 0 (any free one) to 65535")


def key_prefix(value: str) -> None:
    """A check that a text may begin a Redis key; braces are a Cluster's hash tag."""
    if not re.fullmatch(r"[A-Za-z0-9._:{}-]{1,128}", value):
        raise ValueError(f"{value!r} has characters other than letters, digits and '._:{{}}-'")


def key_part(value: str) -> None:
    """A check that a text may stand in a Redis key."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
        raise ValueError(f"{value!r} has characters other than letters, digits, '.', '_' and '-'")


LOG_LEVELS = ("debug", "info", "warning", "error")


def _otlp_endpoint(who: str) -> Any:
    """Where spans go. `who` says whose."""
    return setting(
        None,
        f"http://HOST:PORT or https://… of an OpenTelemetry collector, for the spans of {who}; unset: no traces",
        check=parse_otlp_url,
        also=("TIDEGATE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    )


def _otlp_protocol() -> Any:
    """How they go there."""
    return setting(
        GRPC,
        "how spans go there: grpc or http/protobuf",
        check=one_of(*PROTOCOLS),
        also=("TIDEGATE_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """What every service is told."""

    SERVICE: ClassVar[str] = ""

    config: Path | None = setting(None, "configuration file (tidegate.yaml); JSON is accepted as well")
    redis_url: str | None = setting(None, "Redis URL; overrides redis.url of the file", check=parse_redis_url)
    redis_prefix: str | None = setting(
        None, "prefix of every key, without the colon; overrides the file", check=key_prefix
    )
    log_level: str = setting("info", "debug, info, warning or error", check=one_of(*LOG_LEVELS))
    log_format: str = setting(
        "auto",
        "json, console, or auto: console on a terminal, json elsewhere",
        check=one_of("auto", "console", "json"),
    )
    metrics_listen: str | None = setting(
        None, "host:port of the Prometheus page and /healthz; port 0 is any free one; unset: none", check=split_listen
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GrpcSettings(ServiceSettings):
    """What every gRPC server is told of TLS; without a certificate it serves plaintext."""

    tls_cert: Path | None = setting(
        None, "PEM file of the server's certificate with its chain, read again when it changes; unset: plaintext"
    )
    tls_key: Path | None = setting(None, "PEM file of its private key, without a password")
    tls_client_ca: Path | None = setting(
        None, "PEM file of the authority whose certificate every client has to present; unset: none has to"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class XdsSettings(GrpcSettings):
    """`tidegate xds`."""

    SERVICE: ClassVar[str] = "xds"

    listen: str = setting("127.0.0.1:18000", "host:port of the ADS gRPC server", check=split_listen)
    ext_proc: str = setting(
        "127.0.0.1:18001",
        "host:port at which Envoy finds ext_proc; host:first-last where every worker has a port",
        check=split_ports,
    )
    ext_proc_tls_ca: Path | None = setting(
        None, "PEM file of the authority of ext_proc's certificate, as xds finds it; unset: ext_proc speaks plaintext"
    )
    ext_proc_tls_cert: Path | None = setting(
        None, "PEM file of the certificate that xds presents to ext_proc; given: Envoys present theirs as well"
    )
    ext_proc_tls_key: Path | None = setting(None, "PEM file of its private key")
    ext_proc_tls_name: str | None = setting(
        None, "name or IP that ext_proc's certificate has; unset: the host of --ext-proc"
    )
    envoy_secrets: str | None = setting(
        None, "folder, as Envoy finds it, of the files that xds_server.bootstrap --out wrote; for TLS to ext_proc"
    )
    outcomes: str | None = setting(
        None,
        "host:port at which Envoy finds outcomes, to tell it how requests ended; unset: it tells nobody",
        check=split_address,
    )
    outcomes_tls_name: str | None = setting(
        None,
        "name or IP that the certificate of outcomes has; given: Envoy speaks TLS to it, by --envoy-secrets",
    )
    outcomes_tls_mutual: bool = setting(False, "Envoy presents its certificate to outcomes")
    otlp_endpoint: str | None = _otlp_endpoint("Envoy, as Envoy finds it")
    otlp_protocol: str = _otlp_protocol()
    trace_ratio: float = setting(
        0.01,
        "part of the requests that Envoy samples of those that come without a `traceparent`, 0 to 1",
        check=between(0, 1),
        also=("TIDEGATE_TRACE_RATIO", "OTEL_TRACES_SAMPLER_ARG"),
    )
    request_ids: bool = setting(
        False, "Envoy tells ext_proc each request's x-request-id, for its log; a few microseconds each"
    )
    gateway_listen: str | None = setting(
        None, "host:port of Envoy's listener; overrides gateway.listen of the file", check=split_listen
    )
    controller: bool = setting(True, "run the controller in this process")
    hooks_listen: str | None = setting(
        None,
        "host:port at which alerts and annotations come back; port 0 is any free one; unset: none",
        check=split_listen,
    )
    hooks_token_file: Path | None = setting(
        None, "file of the bearer token that callers of the hooks know; unset: --hooks-listen is a loopback address"
    )
    tick_ms: int = setting(
        250, "milliseconds between two looks at operators' keys; a key is felt within two", check=at_least(10)
    )
    sample_ttl_ms: int = setting(3000, "age in milliseconds past which a sample says nothing", check=at_least(100))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtProcSettings(GrpcSettings):
    """`tidegate ext-proc`."""

    SERVICE: ClassVar[str] = "ext_proc"

    listen: str = setting("127.0.0.1:18001", "host:port of the ext_proc gRPC server", check=split_listen)
    workers: int = setting(
        1,
        "processes that share the port of --listen; with more than one, worker i also has the port i behind it",
        check=at_least(1),
    )
    log_decisions: float = setting(
        0.0,
        "part of the decisions that are logged, 0 to 1: picks with their scores, refusals with their reason; "
        "each line takes time and space",
        check=between(0, 1),
    )
    transport: str = setting(
        "wire",
        "wire: HTTP/2 frames on asyncio, a third of the CPU; grpcio: the gRPC library, for comparison",
        check=one_of("wire", "grpcio"),
    )
    otlp_endpoint: str | None = _otlp_endpoint("ext_proc")
    otlp_protocol: str = _otlp_protocol()
    debug_requests: bool = setting(
        False, "show what was read from the last 256 requests at /debug/last?n=N of the metrics page, prompts excepted"
    )
    tick_ms: int = setting(250, "milliseconds between two reads of weights and drains from Redis", check=at_least(10))
    sample_ttl_ms: int = setting(3000, "age in milliseconds past which a sample says nothing", check=at_least(100))


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomesSettings(GrpcSettings):
    """`tidegate outcomes`."""

    SERVICE: ClassVar[str] = "outcomes"

    listen: str = setting("127.0.0.1:18002", "host:port of the access log gRPC server", check=split_listen)
    tick_ms: int = setting(1000, "milliseconds between two reports to Redis", check=between(100, 2000))


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings(ServiceSettings):
    """`tidegate agent`."""

    SERVICE: ClassVar[str] = "agent"

    node: str = setting(socket.gethostname, "name of this node in Redis", check=key_part)
    all_nodes: bool = setting(False, "watch every endpoint of the file, not only those of this node")
    engine: list[str] = setting(
        list,
        "engine that the file does not name: CLUSTER=HOST:PORT[,model=…][,precision=…][,kind=…][,gpus=0;1]; repeatable",
    )
    engines_dir: Path | None = setting(None, "folder with one YAML or JSON file an engine, watched for changes")
    interval_ms: int = setting(100, "milliseconds between two scrapes of an engine", check=at_least(10))
    timeout_ms: int = setting(1000, "milliseconds after which a scrape has failed", check=at_least(10))
    sample_ttl_ms: int = setting(3000, "milliseconds a sample lives in Redis", check=at_least(100))


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSimSettings(ServiceSettings):
    """`tidegate engine-sim`."""

    SERVICE: ClassVar[str] = "engine_sim"

    host: str = setting("127.0.0.1", "address to bind")
    port: int = setting(8000, "port to bind; 0 is any free one, printed at start", check=port_number)
    model: list[str] = setting(lambda: ["sim"], "served model names; the first is the one in metrics; repeatable")
    kind: str = setting("llm", "llm or diffusion", check=one_of("llm", "diffusion"))
    max_model_len: int = setting(8192, "context length in tokens")
    kv_blocks: int | None = setting(
        None, "KV cache size in blocks; unset: 4096, or more where one sequence of max_model_len needs them"
    )
    block_size: int = setting(16, "tokens in a KV block")
    max_num_seqs: int = setting(256, "sequences that run at once")
    max_num_batched_tokens: int = setting(4096, "tokens computed in one step")
    diffusion_batch: int = setting(2, "requests that a diffusion engine runs at once")
    speed: float = setting(1.0, "speed of this replica relative to the model's; 0.5 is half as fast")
    time_scale: float = setting(1.0, "simulated seconds that pass in one real second")
    seed: int = setting(0, "seed of everything random")
    loading_seconds: float = setting(0.0, "real seconds after start in which /health answers 503")
    fault: str = setting("none", "start with this fault: none, error, hang, loading; POST /sim/fault changes it")
    otlp_endpoint: str | None = _otlp_endpoint("the engine")
    otlp_protocol: str = _otlp_protocol()
    record_requests: bool = setting(
        False, "keep headers and body hashes of the last 256 requests for GET /sim/requests"
    )

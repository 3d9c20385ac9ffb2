"""One frozen settings object a service. A field's flag is `--its-name`, its environment TIDEGATE_<SERVICE>_ITS_NAME.

`setting()` states what a field does, its unit and why its default is what it is; `docs/settings.md` lists all.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar


def setting(default: Any, doc: str) -> Any:
    """A dataclass field with its documentation. `default` may be a zero-argument callable."""
    if callable(default):
        return field(default_factory=default, metadata={"doc": doc})
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSettings:
    """What every service is told."""

    SERVICE: ClassVar[str] = ""

    config: Path | None = setting(None, "configuration file (tidegate.yaml); JSON is accepted as well")
    redis_url: str | None = setting(None, "Redis URL; overrides redis.url of the file")
    redis_prefix: str | None = setting(None, "prefix of every key, without the colon; overrides the file")
    log_level: str = setting("info", "debug, info, warning or error")
    log_format: str = setting("auto", "json, console, or auto: console on a terminal, json elsewhere")
    metrics_listen: str | None = setting(
        None, "host:port of the Prometheus page and /healthz; port 0 is any free one; unset: none"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class XdsSettings(ServiceSettings):
    """`tidegate xds`."""

    SERVICE: ClassVar[str] = "xds"

    listen: str = setting("127.0.0.1:18000", "host:port of the ADS gRPC server")
    ext_proc: str = setting("127.0.0.1:18001", "host:port at which Envoy finds ext_proc")
    gateway_listen: str | None = setting(None, "host:port of Envoy's listener; overrides gateway.listen of the file")
    controller: bool = setting(True, "run the controller in this process")
    tick_ms: int = setting(250, "milliseconds between two looks at operators' keys; a key is felt within two")
    sample_ttl_ms: int = setting(3000, "age in milliseconds past which a sample says nothing")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtProcSettings(ServiceSettings):
    """`tidegate ext-proc`."""

    SERVICE: ClassVar[str] = "ext_proc"

    listen: str = setting("127.0.0.1:18001", "host:port of the ext_proc gRPC server")
    debug_requests: bool = setting(
        False, "show what was read from the last 256 requests at /debug/last?n=N of the metrics page, prompts excepted"
    )
    tick_ms: int = setting(250, "milliseconds between two reads of weights and drains from Redis")
    sample_ttl_ms: int = setting(3000, "age in milliseconds past which a sample says nothing")


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSettings(ServiceSettings):
    """`tidegate agent`."""

    SERVICE: ClassVar[str] = "agent"

    node: str = setting(socket.gethostname, "name of this node in Redis")
    all_nodes: bool = setting(False, "watch every endpoint of the file, not only those of this node")
    interval_ms: int = setting(100, "milliseconds between two scrapes of an engine")
    timeout_ms: int = setting(1000, "milliseconds after which a scrape has failed")
    sample_ttl_ms: int = setting(3000, "milliseconds a sample lives in Redis")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSimSettings(ServiceSettings):
    """`tidegate engine-sim`."""

    SERVICE: ClassVar[str] = "engine_sim"

    host: str = setting("127.0.0.1", "address to bind")
    port: int = setting(8000, "port to bind; 0 is any free one, printed at start")
    model: list[str] = setting(lambda: ["sim"], "served model names; the first is the one in metrics; repeatable")
    kind: str = setting("llm", "llm or diffusion")
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
    record_requests: bool = setting(
        False, "keep headers and body hashes of the last 256 requests for GET /sim/requests"
    )

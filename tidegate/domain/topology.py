"""What the operator wrote in the configuration file: clusters, their models and their endpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from tidegate.domain.flow.classes import RequestClass
from tidegate.domain.outcomes.slo import Slo
from tidegate.domain.routing import RouteRule, Shadow, Split
from tidegate.domain.upstream import DEFAULT, Upstream, UpstreamTls

GPU_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
"""Variables of an engine's environment that may stand among its `gpus` as they are: `CUDA_VISIBLE_DEVICES=0,1`."""


class Kind(StrEnum):
    """What a cluster's engines generate."""

    LLM = "llm"
    DIFFUSION = "diffusion"


class LbPolicy(StrEnum):
    """Who names the replica.

    `PICK`: ext_proc does, request by request (override_host); `WEIGHTED`: Envoy's round robin does, by the
    pushed weights, with exact shares.
    """

    PICK = "pick"
    WEIGHTED = "weighted"


class WithoutPicker(StrEnum):
    """What Envoy does with requests while no ext_proc answers.

    `BY_MODEL`: it reads the model's name itself, from the moment that ext_proc is seen to be away; `BY_MODEL_ALWAYS`:
    it reads it of every request, so that there is no such moment; `REFUSE`: it answers 503.
    """

    BY_MODEL = "by_model"
    BY_MODEL_ALWAYS = "by_model_always"
    REFUSE = "refuse"


class Precision(StrEnum):
    """Number format of the weights an engine serves."""

    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One replica of a cluster, as named in the file.

    `address` is `host:port` (IPv6 in brackets) and is the replica's identity in Redis; `node` is the name of
    the agent that watches it (None: any agent that has the file); `gpus` are NVML indexes, UUIDs, MIG devices as
    `card:slot`, `all`, or GPU_VARIABLES. `engine` names what serves there, and `metrics` is
    `host:port` or `host:port/path` of its metrics page; the agent finds out what is None.
    Envoy sends to `priority` 0, and to the next one where no replica of those before serves; `zone` is where it stands.
    """

    address: str
    node: str | None = None
    gpus: tuple[int | str, ...] = ()
    engine: str | None = None
    metrics: str | None = None
    priority: int = 0
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Replicas that serve the same models. `loras` are adapters of them, which clients name as models."""

    name: str
    models: tuple[str, ...]
    kind: Kind = Kind.LLM
    lb: LbPolicy = LbPolicy.PICK
    precision: Precision = Precision.FP16
    context_tokens: int | None = None
    endpoints: tuple[Endpoint, ...] = ()
    loras: tuple[str, ...] = ()
    envoy: Upstream = DEFAULT
    tls: UpstreamTls | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """Every cluster of a configuration file, in file order, and what decides among them.

    `aliases` are pairs of a name that clients send and the model that it stands for, which is no alias itself; `zones`
    are pairs of a node and the zone of its replicas.
    """

    clusters: tuple[Cluster, ...]
    default_model: str | None = None
    routes: tuple[RouteRule, ...] = ()
    splits: tuple[Split, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    classes: tuple[RequestClass, ...] = ()
    slos: tuple[Slo, ...] = ()
    zones: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the file that a client may send: models, then adapters, cluster by cluster, then aliases."""
        own = [name for cluster in self.clusters for name in (*cluster.models, *cluster.loras)]
        return (*own, *(alias for alias, _ in self.aliases))

    @property
    def split_models(self) -> tuple[str, ...]:
        """Every model that may have a split: those of clusters, their adapters, and those that the file splits."""
        own = [name for cluster in self.clusters for name in (*cluster.models, *cluster.loras)]
        return tuple(dict.fromkeys([*own, *(split.model for split in self.splits)]))

    def split(self, model: str) -> Split | None:
        """The file's split of a model, or None."""
        return next((split for split in self.splits if split.model == model), None)

    def versions(self, model: str) -> tuple[str, ...]:
        """The clusters that a split of `model` may name, in the order that a layout goes by.

        Those of the file's split come first, then the one that lists the model, then all others.
        """
        split = self.split(model)
        named = [name for name, _ in split.parts] if split else []
        homes = [cluster.name for cluster in self.clusters if model in cluster.models]
        return tuple(dict.fromkeys([*named, *homes, *(cluster.name for cluster in self.clusters)]))

    @property
    def rule_headers(self) -> tuple[str, ...]:
        """Lower-case names of the headers that rules and classes compare, sorted."""
        matches = [*(rule.match for rule in self.routes), *(one.match for one in self.classes)]
        return tuple(sorted({name for match in matches for name, _ in match.headers}))

    def cluster(self, name: str) -> Cluster | None:
        """The cluster of that name, or None."""
        return next((c for c in self.clusters if c.name == name), None)


@lru_cache(maxsize=1 << 16)  # every replica's, at each look
def split_address(address: str) -> tuple[str, int]:
    """Cut `host:port` or `[v6]:port` into host (without brackets) and port (1…65535).

    Raises ValueError with a sentence when it is neither.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError(f"{address!r} is not host:port with a port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{address!r} has an IPv6 host without brackets")
    if not _is_host(host):
        raise ValueError(f"{address!r} has no valid host")
    return host, int(port)


def split_ports(address: str) -> tuple[str, int, int]:
    """Cut `host:port` or `host:first-last` into host, first and last port; one port is both.

    Raises ValueError with a sentence when it is neither.
    """
    place, dash, last = address.rpartition("-")
    if not dash or not last.isascii() or not last.isdigit() or not place.rpartition(":")[2].isdigit():
        host, port = split_address(address)
        return host, port, port
    host, first = split_address(place)
    if not first <= int(last) <= 65535:
        raise ValueError(f"{address!r} has no ports from {first} to {last}")
    return host, first, int(last)


_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?", re.ASCII)
_LOOKS_LIKE_IPV4 = re.compile(r"[0-9.]+", re.ASCII)


def _is_host(host: str) -> bool:
    """An IP address, or a host name of letters, digits, '-' and '_' (RFC 1123, with the underscore of containers)."""
    if ":" in host or _LOOKS_LIKE_IPV4.fullmatch(host):
        try:
            ip_address(host)
        except ValueError:
            return False
        return True
    return len(host) <= 253 and _HOST_NAME.fullmatch(host) is not None


def split_listen(listen: str) -> tuple[str, int]:
    """Cut `host:port` or `[v6]:port` of a listener; port 0 is any free one. Raises ValueError with a sentence."""
    head, colon, port = listen.rpartition(":")
    return (split_address(f"{head}:1")[0], 0) if colon and port == "0" else split_address(listen)

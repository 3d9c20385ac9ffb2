"""The shape of `tidegate.yaml`: every key, its type, its default and what its value has to look like.

Nothing is coerced: a number in quotes is no number, and a number is no text. `docs/configuration.md` lists all.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from tidegate.domain.flow.classes import LEAST_URGENT, MOST_URGENT
from tidegate.domain.routing import parse_token_range
from tidegate.domain.topology import GPU_VARIABLES, split_address
from tidegate.domain.upstream import DEFAULT, RANGES
from tidegate.settings.config_actions import ActionsSection
from tidegate.settings.redis_url import parse_redis_url

SYSTEM: Final = "system"
"""The authorities that the machine itself trusts."""

SHORT_FORM: Final = "[short]"
LONG_FORM: Final = "[long]"
FRAMING_HEADERS: Final = frozenset({"host", "content-length", "content-type", "content-encoding", "transfer-encoding"})

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9._:{}-]{1,128}", re.ASCII)
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[A-Za-z0-9.:\[\]_-]+", re.ASCII)
_GPU = re.compile(rf"[A-Za-z0-9._-]{{1,128}}|\d+:\d+|({'|'.join(GPU_VARIABLES)})=[A-Za-z0-9._,:/ -]*", re.ASCII)
_SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text!r} is no {what}")
        return text

    return check


def _printable(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    if text != text.strip():
        raise ValueError(f"{text!r} begins or ends with a space")
    if not text.isprintable():
        raise ValueError(f"{text!r} has a control character")
    return text


def _address(address: str) -> str:
    host, port = split_address(address)
    if (plain := _join(host, port)) != address:
        raise ValueError(f"{address!r} is not how Envoy writes it; write {plain!r}")
    return address


def _join(host: str, port: int) -> str:
    try:
        host = str(ipaddress.ip_address(host))
    except ValueError:
        return f"{host}:{port}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _metrics_page(text: str) -> str:
    address, _, path = text.partition("/")
    _address(address)
    if any(ch.isspace() or ch in "?#" for ch in path):
        raise ValueError(f"{text!r} is not host:port/path")
    return text


def _listen(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    any_port = port.isascii() and port.isdigit() and int(port) == 0
    host, _ = split_address(f"{host}:1" if any_port else listen)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"{host!r} is not an IP address; write 0.0.0.0, 127.0.0.1 or [::]") from None
    return listen


def _redis_url(url: str) -> str:
    parse_redis_url(url)
    return url


def _header_value(text: str) -> str:
    if any(ch in text for ch in "\r\n\0"):
        raise ValueError(f"{text!r} has a line break; no header can hold it")
    return text


def _removable(name: str) -> str:
    """Without these no request can be read."""
    if name.lower() in FRAMING_HEADERS:
        raise ValueError(f"{name!r} says how a request is read; it cannot be removed")
    return name


def _not_ours(name: str) -> str:
    """Envoy has clusters of Tidegate's own beside the operator's."""
    if name.startswith("tidegate_"):
        raise ValueError(f"{name!r} begins with 'tidegate_', which Tidegate keeps for itself")
    return name


def _comparison(text: str) -> str:
    parse_token_range(text)
    return text


def _gpu(gpu: Any) -> int | str:
    """YAML takes a plain 1:2 for 62, counted in sixties: no node has so many cards."""
    index = isinstance(gpu, int) and not isinstance(gpu, bool) and 0 <= gpu < 60
    if not index and not (isinstance(gpu, str) and _GPU.fullmatch(gpu)):
        raise ValueError(
            f"{gpu!r} is neither an NVML index (0, 1, …) nor a GPU's UUID; "
            "a MIG device by card and slot is put in quotes, such as '1:2'"
        )
    return gpu  # type: ignore[no-any-return]


Name = Annotated[str, AfterValidator(_matching(_NAME, "name: letters, digits, '.', '_' and '-', at most 128"))]
ClusterName = Annotated[Name, AfterValidator(_not_ours)]
Prefix = Annotated[str, AfterValidator(_matching(_PREFIX, "prefix: letters, digits, '.', '_', '-' and ':'"))]
ServerName = Annotated[str, AfterValidator(_matching(_SERVER, "name of a server, such as engines.internal or an IP"))]
FilePath = Annotated[str, AfterValidator(_printable)]
HeaderName = Annotated[str, AfterValidator(_matching(_HEADER, "header name"))]
Origin = Annotated[str, AfterValidator(_matching(_ORIGIN, "origin; write https://host, https://host:port or '*'"))]
ModelName = Annotated[str, AfterValidator(_printable)]
Address = Annotated[str, AfterValidator(_address)]
MetricsPage = Annotated[str, AfterValidator(_metrics_page)]
Listen = Annotated[str, AfterValidator(_listen)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
HeaderValue = Annotated[str, AfterValidator(_header_value)]
Comparison = Annotated[str, AfterValidator(_comparison)]
Gpu = Annotated[int | str, BeforeValidator(_gpu)]
Names = Annotated[list[Name], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
StrippedHeader = Annotated[HeaderName, AfterValidator(_removable)]
Permille = Annotated[int, Field(ge=0, le=1000)]


class Section(BaseModel):
    """A mapping of the file: strict, and without keys that nobody knows."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RedisSection(Section):
    """`redis`: where the services meet."""

    url: RedisUrl = "redis://127.0.0.1:6379/0"
    prefix: Prefix = "tidegate"


class GatewaySection(Section):
    """`gateway`: what clients see."""

    listen: Listen = "127.0.0.1:10000"
    max_request_bytes: int = Field(default=32 << 20, gt=0, lt=1 << 32)
    expose_routing: bool = False
    cors_origin: Origin | None = None
    explain: bool = False
    class_header: bool = False
    user_header: HeaderName | None = None
    version_header: bool = True
    strip_headers: list[StrippedHeader] = []
    without_picker: Literal["by_model", "by_model_always", "refuse"] = "by_model"


class ReplicaSection(Section):
    """What the file and an agent's registration both say of one replica."""

    address: Address
    node: Name | None = None
    gpus: list[Gpu] = []
    engine: Literal["vllm", "vllm-omni", "ray-vllm", "sglang", "tgi", "triton-trtllm", "trtllm-serve"] | None = None
    metrics: MetricsPage | None = None


class EndpointSection(ReplicaSection):
    """`clusters[].endpoints[]`: one replica of the file."""

    priority: int = Field(default=0, ge=0, le=127)
    zone: Name | None = None


def _between(name: str) -> Any:
    least, most = RANGES[name]
    return Field(default=getattr(DEFAULT, name), ge=least, le=most)


class EnvoySection(Section):
    """`clusters[].envoy`: how Envoy treats the replicas; the same names with `envoy.` before them tune it live."""

    balance: Literal["round_robin", "least_request"] = "round_robin"
    active_request_bias: float = _between("active_request_bias")
    ramp_ms: int = _between("ramp_ms")
    connect_timeout_ms: int = _between("connect_timeout_ms")
    silence_ms: int = _between("silence_ms")
    retries: int = _between("retries")
    max_requests: int = _between("max_requests")
    eject_after: int = _between("eject_after")
    eject_ms: int = _between("eject_ms")
    http: Literal["http1", "http2"] = "http1"


class TlsSection(Section):
    """`clusters[].tls`: the replicas serve https."""

    name: ServerName
    ca: FilePath = SYSTEM
    cert: FilePath | None = None
    key: FilePath | None = None

    @model_validator(mode="after")
    def _both(self) -> TlsSection:
        if (self.cert is None) != (self.key is None):
            raise ValueError("has one of cert and key; it needs both, or neither")
        return self


class ClusterSection(Section):
    """`clusters[]`: replicas that serve the same models."""

    name: ClusterName
    models: list[ModelName]
    kind: Literal["llm", "diffusion"] = "llm"
    lb: Literal["pick", "weighted"] = "pick"
    precision: Literal["fp16", "bf16", "fp8", "int8", "int4"] = "fp16"
    context_tokens: int | None = Field(default=None, gt=0)
    endpoints: list[EndpointSection] = []
    loras: list[ModelName] = []
    envoy: EnvoySection = EnvoySection()
    tls: TlsSection | None = None


class MatchSection(Section):
    """`routes[].match`: conditions that all have to hold."""

    model: ModelName | None = None
    header: dict[HeaderName, HeaderValue] = {}
    prompt_tokens: Comparison | None = None
    output_tokens: Comparison | None = None
    media: Literal["image", "audio", "video"] | None = None
    api: (
        Literal[
            "chat",
            "completions",
            "embeddings",
            "responses",
            "messages",
            "images",
            "audio",
            "rerank",
            "score",
            "pooling",
            "tokenize",
            "detokenize",
            "generate",
            "count_tokens",
            "unknown",
        ]
        | None
    ) = None


class ClassSection(Section):
    """`classes[]`: requests that share what there is by weight; the first whose conditions hold is a request's."""

    name: Name
    match: MatchSection = MatchSection()
    priority: int = Field(default=0, ge=MOST_URGENT, le=LEAST_URGENT)
    weight: float = Field(default=1.0, ge=0.001, le=1000)


class SloSection(Section):
    """`slos`: what is promised for a model."""

    ttfb_p95_ms: float | None = Field(default=None, gt=0)
    error_rate: float | None = Field(default=None, gt=0, lt=1)
    availability: float | None = Field(default=None, gt=0, lt=1)

    @model_validator(mode="after")
    def _any(self) -> SloSection:
        if self.ttfb_p95_ms is None and self.error_rate is None and self.availability is None:
            raise ValueError("promises nothing; give ttfb_p95_ms, error_rate or availability")
        return self


class RouteSection(Section):
    """`routes[]`: the first rule whose conditions hold names the cluster."""

    match: MatchSection
    cluster: Name
    model: ModelName | None = None
    share: Permille | None = None


class SplitSection(Section):
    """`splits.{model}` in its long form."""

    parts: dict[Name, Permille]
    canary: Names = []
    salt: ModelName | None = None


def _is_long(value: Any) -> str:
    """A cluster may be called `parts`, but its share is a number."""
    return LONG_FORM if isinstance(value, dict) and isinstance(value.get("parts"), dict) else SHORT_FORM


SplitEntry = Annotated[
    Annotated[dict[Name, Permille], Tag(SHORT_FORM)] | Annotated[SplitSection, Tag(LONG_FORM)], Discriminator(_is_long)
]


class FileSection(Section):
    """The whole file."""

    redis: RedisSection = RedisSection()
    gateway: GatewaySection = GatewaySection()
    clusters: list[ClusterSection] = Field(min_length=1)
    routes: list[RouteSection] = []
    classes: list[ClassSection] = []
    aliases: dict[ModelName, ModelName] = {}
    default_model: ModelName | None = None
    splits: dict[ModelName, SplitEntry] = {}
    slos: dict[ModelName, SloSection] = {}
    shadows: dict[ModelName, dict[Name, Permille]] = {}
    zones: dict[Name, Name] = {}
    actions: ActionsSection = ActionsSection()

"""`tidegate.yaml`: from a path to frozen values, or every fault of the file with its line.

`config_tree` reads text into values and lines, `config_model` states what each key may hold, `config_checks`
compares keys with one another. This module runs the three and builds the domain's values.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from tidegate.domain.actions.rules import Actions
from tidegate.domain.errors import ConfigError
from tidegate.domain.flow.classes import RequestClass
from tidegate.domain.outcomes.slo import Slo
from tidegate.domain.routing import Api, Media, RouteMatch, RouteRule, Shadow, Split, TokenRange, parse_token_range
from tidegate.domain.topology import Cluster, Endpoint, Kind, LbPolicy, Precision, Topology, WithoutPicker
from tidegate.domain.upstream import Balance, Http, Upstream, UpstreamTls
from tidegate.settings.config_actions import actions_of
from tidegate.settings.config_checks import cross_faults
from tidegate.settings.config_model import (
    SYSTEM,
    ClassSection,
    ClusterSection,
    EndpointSection,
    EnvoySection,
    FileSection,
    GatewaySection,
    MatchSection,
    RouteSection,
    SplitSection,
    TlsSection,
)
from tidegate.settings.config_sentences import faults_of
from tidegate.settings.config_tree import Fault, Tree, read_tree


@dataclass(frozen=True, slots=True)
class Gateway:
    """What clients see. `listen` is IP:port, port 0 being any free one."""

    listen: str = GatewaySection.model_fields["listen"].default
    max_request_bytes: int = GatewaySection.model_fields["max_request_bytes"].default
    expose_routing: bool = GatewaySection.model_fields["expose_routing"].default
    cors_origin: str | None = GatewaySection.model_fields["cors_origin"].default
    explain: bool = GatewaySection.model_fields["explain"].default
    class_header: bool = GatewaySection.model_fields["class_header"].default
    user_header: str | None = GatewaySection.model_fields["user_header"].default
    version_header: bool = GatewaySection.model_fields["version_header"].default
    strip_headers: tuple[str, ...] = ()
    without_picker: WithoutPicker = WithoutPicker.BY_MODEL


@dataclass(frozen=True, slots=True)
class FileConfig:
    """A configuration file without faults."""

    redis_url: str
    redis_prefix: str
    gateway: Gateway
    topology: Topology
    actions: Actions = field(default_factory=Actions)


def load(path: pathlib.Path) -> FileConfig:
    """Read the file at `path`, YAML or JSON.

    Raises ConfigError with every fault of the file, by line: `tidegate.yaml:12: clusters[1].name: …`.
    """
    return parse(_text(path), str(path))


def parse(text: str, name: str) -> FileConfig:
    """Read a file's text; `name` says where it is from, and one that ends in .json has to be JSON."""
    tree = read_tree(text, is_json=name.lower().endswith(".json"))
    faults = list(tree.faults)
    section = None
    if tree.value is not None or not faults:
        section, found = _validate(tree)
        faults += found
    if faults or section is None:
        raise ConfigError([_line(name, fault) for fault in sorted(set(faults))])
    return _file_config(section)


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "it is a directory, not a file"
    except UnicodeDecodeError as exc:
        problem = f"it is not UTF-8 text (byte {exc.start})"
    except (OSError, ValueError) as exc:
        problem = f"it cannot be read: {getattr(exc, 'strerror', None) or exc}"
    raise ConfigError([f"{path}: {problem}"])


def _validate(tree: Tree) -> tuple[FileSection | None, list[Fault]]:
    if not isinstance(tree.value, dict):
        return None, [Fault(1, "", "the file holds no mapping; it needs at least `clusters`")]
    faults = cross_faults(tree)
    try:
        return FileSection.model_validate(tree.value), faults
    except ValidationError as exc:
        return None, faults + faults_of(exc, tree)


def _line(name: str, fault: Fault) -> str:
    place = f"{name}:{fault.line}: "
    return place + (f"{fault.path}: {fault.sentence}" if fault.path else fault.sentence)


def _file_config(section: FileSection) -> FileConfig:
    topology = Topology(
        clusters=tuple(_cluster(one) for one in section.clusters),
        default_model=section.default_model,
        routes=tuple(_route(one) for one in section.routes),
        classes=tuple(_class(one) for one in section.classes),
        splits=tuple(_split(model, one) for model, one in section.splits.items()),
        shadows=tuple(Shadow(model, tuple(parts.items())) for model, parts in section.shadows.items()),
        aliases=tuple((alias, _meant(alias, section.aliases)) for alias in section.aliases),
        slos=tuple(Slo(model, **one.model_dump()) for model, one in section.slos.items()),
        zones=tuple(section.zones.items()),
    )
    gateway, actions = _gateway(section.gateway), actions_of(section.actions)
    return FileConfig(section.redis.url, section.redis.prefix, gateway, topology, actions)


def _gateway(section: GatewaySection) -> Gateway:
    return Gateway(
        listen=section.listen,
        max_request_bytes=section.max_request_bytes,
        expose_routing=section.expose_routing,
        cors_origin=section.cors_origin,
        explain=section.explain,
        class_header=section.class_header,
        user_header=section.user_header.lower() if section.user_header else None,
        version_header=section.version_header,
        strip_headers=tuple(dict.fromkeys(name.lower() for name in section.strip_headers)),
        without_picker=WithoutPicker(section.without_picker),
    )


def _meant(name: str, aliases: Mapping[str, str]) -> str:
    """What a name stands for in the end. The file's check has refused circles."""
    while name in aliases:
        name = aliases[name]
    return name


def _cluster(section: ClusterSection) -> Cluster:
    return Cluster(
        name=section.name,
        models=tuple(section.models),
        kind=Kind(section.kind),
        lb=LbPolicy(section.lb),
        precision=Precision(section.precision),
        context_tokens=section.context_tokens,
        endpoints=tuple(_endpoint(one) for one in section.endpoints),
        loras=tuple(section.loras),
        envoy=_upstream(section.envoy),
        tls=_tls(section.tls) if section.tls else None,
    )


def _upstream(section: EnvoySection) -> Upstream:
    plain = section.model_dump()
    return Upstream(**{**plain, "balance": Balance(plain["balance"]), "http": Http(plain["http"])})


def _tls(section: TlsSection) -> UpstreamTls:
    ca = None if section.ca == SYSTEM else section.ca
    return UpstreamTls(name=section.name, ca=ca, cert=section.cert, key=section.key)


def _endpoint(section: EndpointSection) -> Endpoint:
    return Endpoint(
        section.address,
        section.node,
        tuple(section.gpus),
        section.engine,
        section.metrics,
        section.priority,
        section.zone,
    )


def _route(section: RouteSection) -> RouteRule:
    return RouteRule(_match(section.match), section.cluster, section.model, section.share)


def _split(model: str, section: SplitSection | dict[str, int]) -> Split:
    if isinstance(section, SplitSection):
        return Split(model, tuple(section.parts.items()), tuple(section.canary), section.salt)
    return Split(model, tuple(section.items()))


def _class(section: ClassSection) -> RequestClass:
    return RequestClass(section.name, _match(section.match), section.priority, section.weight)


def _match(section: MatchSection) -> RouteMatch:
    return RouteMatch(
        model=section.model,
        headers=tuple((name.lower(), value) for name, value in section.header.items()),
        prompt_tokens=_range(section.prompt_tokens),
        output_tokens=_range(section.output_tokens),
        media=Media(section.media) if section.media else None,
        api=Api(section.api) if section.api else None,
    )


def _range(text: str | None) -> TokenRange | None:
    return parse_token_range(text) if text is not None else None

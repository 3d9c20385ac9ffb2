"""File + store + resolved names → Desired. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegate.domain.actions.layers import with_splits
from tidegate.domain.routing import RouteMatch, Shadow
from tidegate.domain.split import KEY_HEADERS, ModelSplit, in_force
from tidegate.domain.topology import Cluster, Endpoint, Topology, WithoutPicker, split_address
from tidegate.domain.upstream import Upstream
from tidegate.domain.wire import (
    ADDRESS_ATTRIBUTE,
    CANARY_HEADER,
    CLASS_HEADER,
    EXPLAIN_HEADER,
    PRIORITY_HEADER,
    REQUEST_ID_ATTRIBUTE,
    VERSION_HEADER,
    header_attribute,
)
from xds_server.desired import (
    Collector,
    Desired,
    DesiredCluster,
    DesiredEndpoint,
    DesiredShadow,
    DesiredSplit,
    NameRule,
    OutcomesServer,
    PickerTls,
)
from xds_server.store_view import StoreView


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What the file and the flags say about the gateway itself."""

    listen_host: str
    listen_port: int
    max_request_bytes: int
    expose_routing: bool
    ext_proc_host: str
    ext_proc_port: int
    ext_proc_last_port: int | None = None
    ext_proc_tls: PickerTls | None = None
    cors_origin: str | None = None
    explain: bool = False
    class_header: bool = False
    without_picker: WithoutPicker = WithoutPicker.BY_MODEL
    user_header: str | None = None
    version_header: bool = True
    strip_headers: tuple[str, ...] = ()
    outcomes: OutcomesServer | None = None
    collector: Collector | None = None
    request_ids: bool = False


def compose(
    gateway: Gateway,
    topology: Topology,
    view: StoreView,
    ips: Mapping[str, str],
    sample_ttl_ms: int,
    *,
    picker_away: bool = False,
    upstreams: Mapping[str, Upstream] | None = None,
) -> Desired:
    """What Envoy should do. `ips` maps the hosts of endpoints to addresses; an endpoint without one is left out.
    `upstreams` are the settings of clusters that were tuned, by name.

    Endpoints of the file come first, in its order, then those that agents registered, by address.
    """
    listed, zones = _listed(view), dict(topology.zones)
    clusters = tuple(
        _cluster(cluster, view, ips, sample_ttl_ms, upstreams or {}, listed.get(cluster.name, set()), zones)
        for cluster in topology.clusters
    )
    splits = in_force(topology, with_splits(view.tuned, view.effects, topology.split_models))
    return Desired(
        listen_host=gateway.listen_host,
        listen_port=gateway.listen_port,
        max_request_bytes=gateway.max_request_bytes,
        expose_routing=gateway.expose_routing,
        ext_proc_host=gateway.ext_proc_host,
        ext_proc_port=gateway.ext_proc_port,
        ext_proc_last_port=gateway.ext_proc_last_port,
        ext_proc_tls=gateway.ext_proc_tls,
        clusters=clusters,
        aliases=tuple(alias for alias, _ in topology.aliases),
        rule_headers=topology.rule_headers,
        cors_origin=gateway.cors_origin,
        explain=gateway.explain,
        inputs=_inputs(gateway, splits),
        attributes=_attributes(gateway, topology, splits),
        strip_headers=gateway.strip_headers,
        splits=tuple(_split(split, clusters) for split in splits.values()),
        shadows=tuple(_shadow(shadow, topology, splits, clusters) for shadow in topology.shadows),
        without_picker=gateway.without_picker,
        picker_away=picker_away,
        name_rules=_name_rules(topology),
        default_model=topology.default_model,
        outcomes=gateway.outcomes,
        collector=gateway.collector,
    )


def _inputs(gateway: Gateway, splits: Mapping[str, ModelSplit]) -> tuple[str, ...]:
    """Tidegate's own headers that clients may send."""
    allowed = (
        (PRIORITY_HEADER, True),
        (CLASS_HEADER, gateway.class_header),
        (EXPLAIN_HEADER, gateway.explain),
        (VERSION_HEADER, gateway.version_header and bool(splits)),
    )
    return tuple(name for name, said in allowed if said)


def _attributes(gateway: Gateway, topology: Topology, splits: Mapping[str, ModelSplit]) -> tuple[str, ...]:
    """What tells who asks, where that matters; what a client says of canaries, where there are any; a request's id."""
    ids = (REQUEST_ID_ATTRIBUTE,) if gateway.request_ids else ()
    if not splits and all(rule.share_permille is None for rule in topology.routes):
        return ids
    canary = [CANARY_HEADER] if any(split.canary for split in splits.values()) else []
    named = [gateway.user_header] if gateway.user_header else []
    return (*ids, ADDRESS_ATTRIBUTE, *map(header_attribute, [*named, *KEY_HEADERS, *canary]))


def _split(split: ModelSplit, clusters: Sequence[DesiredCluster]) -> DesiredSplit:
    """Without the versions that serve nobody, unless none does."""
    serving = {cluster.name for cluster in clusters if any(endpoint.serves for endpoint in cluster.endpoints)}
    parts = tuple((name, share) for name, share in split.parts if share)
    return DesiredSplit(model=split.model, parts=tuple(part for part in parts if part[0] in serving) or parts)


def _shadow(
    shadow: Shadow, topology: Topology, splits: Mapping[str, ModelSplit], clusters: Sequence[DesiredCluster]
) -> DesiredShadow:
    """Where its model's requests may go: to those that have the model, its versions, and where rules send it."""
    homes = [cluster.name for cluster in clusters if shadow.model in cluster.models]
    versions = splits[shadow.model].versions if shadow.model in splits else ()
    names = (None, shadow.model, *(alias for alias, meant in topology.aliases if meant == shadow.model))
    ruled = [rule.cluster for rule in topology.routes if rule.match.model in names]
    parts = tuple(part for part in shadow.parts if part[1])
    return DesiredShadow(model=shadow.model, clusters=tuple(dict.fromkeys([*homes, *versions, *ruled])), parts=parts)


def _name_rules(topology: Topology) -> tuple[NameRule, ...]:
    """The rules that look at names and headers alone, hold for every user and write no other name into the body."""
    return tuple(
        NameRule(cluster=rule.cluster, model=rule.match.model, headers=rule.match.headers)
        for rule in topology.routes
        if rule.model is None
        and rule.share_permille is None
        and rule.match == RouteMatch(model=rule.match.model, headers=rule.match.headers)
    )


def addresses_of(cluster: Cluster, view: StoreView) -> list[str]:
    """Every valid endpoint address of a cluster, each once."""
    registered = sorted(view.membership.by_cluster.get(cluster.name, ()))
    named = [e.address for e in cluster.endpoints]
    return [address for address in dict.fromkeys([*named, *registered]) if host_of(address) is not None]


def host_of(address: str) -> str | None:
    """The host of `host:port`, or None when it is neither: agents register what they were told."""
    try:
        return split_address(address)[0]
    except ValueError:
        return None


def _cluster(
    cluster: Cluster,
    view: StoreView,
    ips: Mapping[str, str],
    sample_ttl_ms: int,
    upstreams: Mapping[str, Upstream],
    listed: Collection[str],
    zones: Mapping[str, str],
) -> DesiredCluster:
    endpoints: dict[tuple[str, int], DesiredEndpoint] = {}
    in_file = {endpoint.address: endpoint for endpoint in cluster.endpoints}
    for address in addresses_of(cluster, view):
        host, port = split_address(address)
        if host not in ips or (ips[host], port) in endpoints:  # two names of one place are one endpoint
            continue
        endpoint = in_file.get(address, Endpoint(address))
        zone = endpoint.zone or zones.get(endpoint.node or view.nodes.get((cluster.name, address), ""), "")
        place = (ips[host], port)
        endpoints[place] = _endpoint(cluster.name, endpoint, place, view, sample_ttl_ms, zone)
    return DesiredCluster(
        name=cluster.name,
        models=tuple(dict.fromkeys([*cluster.models, *cluster.loras, *sorted(listed)])),
        lb=cluster.lb,
        upstream=upstreams.get(cluster.name, cluster.envoy),
        tls=cluster.tls,
        endpoints=tuple(endpoints.values()),
    )


def _listed(view: StoreView) -> dict[str, set[str]]:
    """By cluster, the names that its engines list: models and adapters that the file may lack."""
    listed: dict[str, set[str]] = {}
    for (cluster, _), names in view.listed.items():
        listed.setdefault(cluster, set()).update(names)
    return listed


def _endpoint(
    cluster: str, endpoint: Endpoint, place: tuple[str, int], view: StoreView, sample_ttl_ms: int, zone: str
) -> DesiredEndpoint:
    address = endpoint.address
    sample = view.samples.get((cluster, address))
    fresh = sample is not None and sample.is_fresh(view.read_at_ms, sample_ttl_ms)
    return DesiredEndpoint(
        address=address,
        ip=place[0],
        port=place[1],
        weight=view.weights.get(cluster, {}).get(address),
        takes_traffic=sample.status.takes_traffic if sample is not None and fresh else True,
        priority=endpoint.priority,
        zone=zone,
    )

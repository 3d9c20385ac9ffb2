"""What Envoy should do, as one plain value: the only input of `resources`."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.topology import LbPolicy, WithoutPicker
from tidegate.domain.upstream import DEFAULT, Upstream, UpstreamTls
from tidegate.domain.wire import PRIORITY_HEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredEndpoint:
    """A replica. `address` is its identity, `ip` and `port` are where it is reached.

    `weight` is 0…1000; 0 is no new traffic, None is a share like the average of its siblings. `priority` may leave
    gaps: 0 comes first.
    """

    address: str
    ip: str
    port: int
    weight: int | None = None
    takes_traffic: bool = True
    priority: int = 0
    zone: str = ""

    @property
    def serves(self) -> bool:
        """Whether a new request may go there."""
        return self.takes_traffic and self.weight != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredCluster:
    """Replicas of the same models and how one of them is chosen. `models` are all names under which they are known."""

    name: str
    models: tuple[str, ...]
    lb: LbPolicy
    upstream: Upstream = DEFAULT
    tls: UpstreamTls | None = None
    endpoints: tuple[DesiredEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """A rule of the file that Envoy can keep by itself: these headers (lower-case name, exact value), this model.

    `model` None is any.
    """

    cluster: str
    model: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSplit:
    """A model's versions that serve somebody, and their shares, each above 0: what Envoy keeps of a split by itself."""

    model: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredShadow:
    """Copies of a model's requests: to each cluster of `parts`, so many parts per thousand.

    `clusters` are those that the requests themselves may go to.
    """

    model: str
    clusters: tuple[str, ...]
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerTls:
    """How Envoy speaks to ext_proc: `name` is one of its certificate's, `secrets` the folder of Envoy's own secrets.

    `mutual`: Envoy presents a certificate.
    """

    name: str
    secrets: str
    mutual: bool = False


@dataclass(frozen=True, slots=True)
class OutcomesServer:
    """Where Envoy tells how requests ended; by TLS where given, as to ext_proc. `host` may be a name."""

    host: str
    port: int
    tls: PickerTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Whom Envoy tells its spans: by gRPC, or by HTTP at `path` where given. `host` may be a name.

    `ratio` is the part of the requests, 0…1, that it samples of those that come without a trace.
    """

    host: str
    port: int
    path: str | None = None
    ratio: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The gateway and everything behind it. Hosts of the listener are IPs; that of ext_proc may be a name.

    `aliases` are further names of models, `rule_headers` the lower-case names of the headers that rules compare,
    `inputs` those of Tidegate's own that clients may send, `attributes` what ext_proc is sent beside those,
    `strip_headers` what no engine gets, `explain` whether answers may say why they were sent where,
    `cors_origin` the one whose pages may call the gateway, `*` for any. `picker_away`: no ext_proc answers; then
    `without_picker` says what to do, and `name_rules` and `default_model` are what Envoy can keep of the file.
    `outcomes` is whom Envoy tells how requests ended, `collector` whom it tells its spans; None: nobody.
    """

    listen_host: str
    listen_port: int
    max_request_bytes: int
    expose_routing: bool
    ext_proc_host: str
    ext_proc_port: int
    ext_proc_last_port: int | None = None
    ext_proc_tls: PickerTls | None = None
    clusters: tuple[DesiredCluster, ...]
    aliases: tuple[str, ...] = ()
    rule_headers: tuple[str, ...] = ()
    cors_origin: str | None = None
    explain: bool = False
    inputs: tuple[str, ...] = (PRIORITY_HEADER,)
    without_picker: WithoutPicker = WithoutPicker.BY_MODEL
    picker_away: bool = False
    name_rules: tuple[NameRule, ...] = ()
    default_model: str | None = None
    attributes: tuple[str, ...] = ()
    strip_headers: tuple[str, ...] = ()
    splits: tuple[DesiredSplit, ...] = ()
    shadows: tuple[DesiredShadow, ...] = ()
    outcomes: OutcomesServer | None = None
    collector: Collector | None = None

    @property
    def can_serve(self) -> bool:
        """Whether any cluster has a replica that takes a new request."""
        return any(endpoint.serves for cluster in self.clusters for endpoint in cluster.endpoints)

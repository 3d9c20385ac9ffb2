"""How Envoy treats the replicas of one cluster: what the file says, and what operators tune while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from tidegate.domain.tunable import Tunable

TUNE_PREFIX: Final = "envoy."


class Balance(StrEnum):
    """Which replica Envoy takes where ext_proc names none.

    `ROUND_ROBIN` keeps exact shares by weight; `LEAST_REQUEST` divides a weight by (requests in flight + 1)^bias.
    """

    ROUND_ROBIN = "round_robin"
    LEAST_REQUEST = "least_request"


class Http(StrEnum):
    """The protocol that the replicas speak."""

    HTTP1 = "http1"
    HTTP2 = "http2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Settings of one cluster in Envoy. `docs/envoy.md` gives each its unit, range and reason."""

    balance: Balance = Balance.ROUND_ROBIN
    active_request_bias: float = 1.0
    ramp_ms: int = 0
    connect_timeout_ms: int = 1_000
    silence_ms: int = 3_600_000
    retries: int = 2
    max_requests: int = 100_000
    eject_after: int = 5
    eject_ms: int = 10_000
    http: Http = Http.HTTP1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTls:
    """TLS to the replicas of one cluster. `name` is one that each replica's certificate has, DNS name or IP.

    `ca` is the path of a PEM file of authorities, None those that the system trusts; `cert` and `key` are the pair that
    is presented, both or neither. The paths are the same at Envoy and at the agent.
    """

    name: str
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


DEFAULT: Final = Upstream()


def _number(name: str, least: float, most: float, unit: str, doc: str) -> Tunable:
    default = getattr(DEFAULT, name)
    return Tunable(name=TUNE_PREFIX + name, default=default, least=least, most=most, unit=unit, doc=doc)


def _word(name: str, kind: type[StrEnum], doc: str) -> Tunable:
    default = str(getattr(DEFAULT, name))
    return Tunable(name=TUNE_PREFIX + name, default=default, choices=tuple(map(str, kind)), doc=doc)


TUNABLES: Final = (
    _word(
        "balance",
        Balance,
        "which replica Envoy takes where ext_proc names none: by weight, or by requests in flight as well",
    ),
    _number("active_request_bias", 0.0, 10.0, "", "how much requests in flight count under least_request"),
    _number("ramp_ms", 0, 3_600_000, "ms", "over which time a new replica's share grows; 0: at once"),
    _number("connect_timeout_ms", 10, 60_000, "ms", "wait for a connection; then the next replica is tried"),
    _number("silence_ms", 0, 86_400_000, "ms", "silence of an answer that ends it with 504; 0: never"),
    _number("retries", 0, 5, "", "other replicas that are tried when a request was not taken"),
    _number("max_requests", 1, 4_294_967_295, "", "requests at once in the cluster; more get 503"),
    _number("eject_after", 0, 1_000_000, "", "faults in a row that set a replica aside; 0: never"),
    _number("eject_ms", 100, 3_600_000, "ms", "for how long the first time; longer each time"),
    _word("http", Http, "the protocol that the replicas speak"),
)
"""Every setting of `clusters[].envoy` as operators tune it: the file's value, where it has one, is the default."""

_BY_NAME: Final[Mapping[str, Tunable]] = {t.name.removeprefix(TUNE_PREFIX): t for t in TUNABLES}
_CHOICES: Final[Mapping[str, type[StrEnum]]] = {"balance": Balance, "http": Http}
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    name: (t.least, t.most) for name, t in _BY_NAME.items() if name not in _CHOICES
}
"""Least and greatest value of each number."""


def tuned(base: Upstream, fields: Mapping[str, str], last: Upstream) -> tuple[Upstream, dict[str, str]]:
    """`base` with the fields of one `tune:{cluster}` that begin with `envoy.`, and why others are not accepted.

    A bad value leaves that of `last`, the one in force, where it was.
    """
    values: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for field, text in fields.items():
        if not field.startswith(TUNE_PREFIX):
            continue
        name = field.removeprefix(TUNE_PREFIX)
        try:
            values[name] = _read(name, text)
        except ValueError as exc:
            refused[field] = str(exc)
            if name in Upstream.__dataclass_fields__:
                values[name] = getattr(last, name)
    return replace(base, **values), refused


def _read(name: str, text: str) -> Any:
    if name not in _BY_NAME:
        raise ValueError(f"there is no such setting; there are {', '.join(sorted(_BY_NAME))}")
    value = _BY_NAME[name].read(text)
    return _CHOICES[name](str(value)) if name in _CHOICES else value

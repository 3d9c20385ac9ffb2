"""How Envoy treats the replicas of one cluster: what the file says, and what operators tune while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

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


DEFAULT: Final = Upstream()
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "active_request_bias": (0.0, 10.0),
    "ramp_ms": (0, 3_600_000),
    "connect_timeout_ms": (10, 60_000),
    "silence_ms": (0, 86_400_000),
    "retries": (0, 5),
    "max_requests": (1, 4_294_967_295),
    "eject_after": (0, 1_000_000),
    "eject_ms": (100, 3_600_000),
}
"""Least and greatest value of each number."""

_CHOICES: Final[Mapping[str, type[StrEnum]]] = {"balance": Balance, "http": Http}


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
    if name in _CHOICES:
        return _choice(_CHOICES[name], text)
    if name not in RANGES:
        raise ValueError(f"there is no such setting; there are {', '.join(sorted([*RANGES, *_CHOICES]))}")
    number: Callable[[str], float] = float if name == "active_request_bias" else int
    least, most = RANGES[name]
    try:
        value = number(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number") from None
    if not least <= value <= most:
        raise ValueError(f"{text[:40]} is not between {least:g} and {most:g}")
    return value


def _choice(kind: type[StrEnum], text: str) -> StrEnum:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is none of {', '.join(kind)}") from None

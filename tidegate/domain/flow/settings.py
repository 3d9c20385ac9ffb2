"""How a cluster's queue and batch window behave: tunables of `tune` and `tune:{cluster}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from tidegate.domain.tunable import Tunable, read_fields, values_of

LONGEST_WAIT_MS: Final = 110_000
"""Envoy lets ext_proc hold a request for two minutes, and the answer takes its time too."""


class SessionKey(StrEnum):
    """What ties requests of one conversation or user together; AUTO: the first of these that a request has."""

    AUTO = "auto"
    SESSION_ID = "session_id"
    PROMPT_CACHE_KEY = "prompt_cache_key"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One cluster's. `TUNABLES` gives each field its unit, range and meaning."""

    max_requests: int = 1024
    max_bytes: int = 256 << 20
    timeout_ms: int = 30_000
    look_ahead: int = 8
    most_passed: int = 64
    urgent_spare_ratio: float = 0.2
    urgent_hold_seconds: float = 0.02
    batch_window_ms: int = 0
    batch_max_requests: int = 32
    batch_max_prefill_tokens: int = 65_536
    session: str = SessionKey.AUTO


DEFAULT: Final = FlowSettings()

_FIELDS: Final = {
    "queue.max_requests": "max_requests",
    "queue.max_bytes": "max_bytes",
    "queue.timeout_ms": "timeout_ms",
    "queue.look_ahead": "look_ahead",
    "queue.most_passed": "most_passed",
    "queue.urgent_spare_ratio": "urgent_spare_ratio",
    "queue.urgent_hold_seconds": "urgent_hold_seconds",
    "batch.window_ms": "batch_window_ms",
    "batch.max_requests": "batch_max_requests",
    "batch.max_prefill_tokens": "batch_max_prefill_tokens",
    "session.key": "session",
}


def _whole(name: str, doc: str, most: float, *, least: float = 0, unit: str = "") -> Tunable:
    return Tunable(name=name, default=getattr(DEFAULT, _FIELDS[name]), doc=doc, unit=unit, least=least, most=most)


TUNABLES: Final = (
    _whole("queue.max_requests", "requests that wait at once in one ext_proc; 0: none, what finds no room is 429", 1e5),
    _whole("queue.max_bytes", "bytes of their bodies", 1e12, unit="bytes"),
    _whole("queue.timeout_ms", "how long a request waits before it is 429", LONGEST_WAIT_MS, unit="ms"),
    _whole("queue.look_ahead", "requests behind one that finds no room that are tried in its place", 256),
    _whole("queue.most_passed", "requests that pass such a one; from then on those behind it wait too", 1e6),
    Tunable(
        name="queue.urgent_spare_ratio",
        default=DEFAULT.urgent_spare_ratio,
        most=0.9,
        doc="part of each replica's KV cache that others leave to urgent requests, while such come",
    ),
    Tunable(
        name="queue.urgent_hold_seconds",
        default=DEFAULT.urgent_hold_seconds,
        unit="s",
        most=600.0,
        doc="expected wait at every replica from which on others wait in the gateway, while urgent requests come; "
        "0: as `pick.hold_seconds` says",
    ),
    _whole("batch.window_ms", "how long arrivals are held to be placed together; 0: not at all", 1000, unit="ms"),
    _whole("batch.max_requests", "arrivals that close the window early", 4096, least=1),
    _whole("batch.max_prefill_tokens", "tokens of their prompts that close the window early", 1e9, least=1),
    Tunable(
        name="session.key",
        default=str(SessionKey.AUTO),
        choices=tuple(SessionKey),
        doc="which field of a request is its session, for `pick.session_seconds`",
    ),
)


def tuned(base: FlowSettings, fields: Mapping[str, str], last: FlowSettings) -> tuple[FlowSettings, dict[str, str]]:
    """`base` with the fields of `tune` that are known here, and why others are not accepted.

    A bad value leaves that of `last`, the settings in force.
    """
    values, refused = read_fields(TUNABLES, fields, values_of(last, TUNABLES, _FIELDS))
    changed: dict[str, Any] = {_FIELDS[name]: value for name, value in values.items()}
    return replace(base, **changed), refused

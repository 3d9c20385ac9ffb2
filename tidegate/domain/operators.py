"""What operators typed into `weight:` and `drain:`: valid orders, and a sentence for each value refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

LARGEST_PIN: Final = 1000
_DIGITS: Final = re.compile(r"[0-9]{1,4}")
_SHOWN_CHARACTERS: Final = 40

ByEndpoint = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Intent:
    """Orders in force: pins (0…1000) and drains (reason) by cluster and address; `rejected` by operator key.

    A key of `rejected` reads `weight:{cluster} {host:port}`.
    """

    pins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    drains: ByEndpoint = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)


def parse_pin(text: str) -> int:
    """A whole number from 0 to 1000 in ASCII digits. Raises ValueError with half a sentence."""
    if _DIGITS.fullmatch(text) and int(text) <= LARGEST_PIN:
        return int(text)
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    raise ValueError(f"{shown!r} is not a whole number from 0 to {LARGEST_PIN}")


def read_orders(
    weights: ByEndpoint,
    drains: ByEndpoint,
    members: Mapping[str, Collection[str]],
    before: Intent,
    broken: Mapping[str, str] | None = None,
) -> Intent:
    """Validate the fields of `weight:` and `drain:`, by cluster and address, as typed.

    `members` are the addresses that each cluster has. A bad weight leaves that field's last good value of
    `before` in force, else the automatic weight. A field for an endpoint that the cluster lacks is kept and
    explained: the engine may register later. Absent fields are no orders. `broken` names keys that cannot be
    read (of another type) and why: their last good orders stay in force.
    """
    rejected: dict[str, str] = dict(broken or {})
    pins = {c: dict(fields) for c, fields in before.pins.items() if f"weight:{c}" in rejected}
    kept_drains = {c: dict(fields) for c, fields in before.drains.items() if f"drain:{c}" in rejected}
    for cluster, fields in weights.items():
        for address, text in fields.items():
            pin, fault = _pin(text, before.pins.get(cluster, {}).get(address))
            if pin is not None:
                pins.setdefault(cluster, {})[address] = pin
            if fault or address not in members.get(cluster, ()):
                rejected[f"weight:{cluster} {address}"] = fault or _absent(cluster, address)
    for cluster, fields in drains.items():
        for address in fields:
            if address not in members.get(cluster, ()):
                rejected[f"drain:{cluster} {address}"] = _absent(cluster, address)
    return Intent(pins, kept_drains | {c: dict(fields) for c, fields in drains.items() if fields}, rejected)


def _pin(text: str, last_good: int | None) -> tuple[int | None, str | None]:
    try:
        return parse_pin(text), None
    except ValueError as exc:
        stays = "automatic weight" if last_good is None else f"the last good value {last_good}"
        return last_good, f"{exc}; {stays} stays in force"


def _absent(cluster: str, address: str) -> str:
    return f"cluster {cluster} has no endpoint {address}; the value takes effect when it registers"

"""How a cluster picks: the values in force, and the names by which operators tune them while requests flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.domain.tunable import Tunable, Value, read_fields, values_of

COST: Final = "cost"
WEIGHTED_SUM: Final = "weighted_sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class PickSettings:
    """Values of one cluster. `TUNABLES` gives each its unit, range and meaning; the defaults agree."""

    policy: str = COST
    price: float = 8.0
    hold_seconds: float = 0.0
    fit_safety: float = 1.3
    room_seconds: float = 60.0
    prefill_tokens_per_second: float = 14_000.0
    step_tokens: int = 4_096
    step_seconds: float = 0.012
    sequence_seconds: float = 60e-6
    context_seconds: float = 22e-9
    interference: float = 0.02
    decode: float = 2.0
    adapter_seconds: float = 0.3
    session_seconds: float = 0.0
    ramp_seconds: float = 5.0
    hung_seconds: float = 1.5
    equal_seconds: float = 0.01
    kv_tokens: int = 500_000
    pixel_steps_per_second: float = 4e6
    prefix_weight: float = 3.0
    queue_weight: float = 2.0
    kv_weight: float = 2.0


DEFAULT: Final = PickSettings()


def _number(name: str, field: str, doc: str, *, unit: str = "", least: float = 0.0, most: float) -> Tunable:
    default = getattr(DEFAULT, field)
    return Tunable(name=name, default=default, doc=doc, unit=unit, least=least, most=most)


_BY_FIELD: Final[Mapping[str, Tunable]] = {
    "policy": Tunable(
        name="pick.policy",
        default=COST,
        choices=(COST, WEIGHTED_SUM),
        doc="expected seconds to the first token, or a weighted sum of normalised scores",
    ),
    "price": _number(
        "pick.price",
        "price",
        "how much dearer a token that no cache holds becomes with each second of the fleet's backlog",
        unit="1/s",
        most=100.0,
    ),
    "hold_seconds": _number(
        "pick.hold_seconds",
        "hold_seconds",
        "expected wait at every replica from which on a request waits in the gateway; 0 never holds",
        unit="s",
        most=600.0,
    ),
    "fit_safety": _number(
        "fit.safety", "fit_safety", "free KV tokens that a request needs, as a multiple of its demand", most=10.0
    ),
    "room_seconds": _number(
        "pick.room_seconds",
        "room_seconds",
        "how soon a full replica must have room, by how long requests stay, to be named all the same",
        unit="s",
        most=600.0,
    ),
    "prefill_tokens_per_second": _number(
        "pick.prefill_tokens_per_second",
        "prefill_tokens_per_second",
        "what a replica prefills in steps that do nothing else; a first guess that its counters correct",
        unit="tokens/s",
        least=1.0,
        most=1e7,
    ),
    "step_tokens": _number(
        "pick.step_tokens", "step_tokens", "tokens of one engine step at most", unit="tokens", least=1, most=1e6
    ),
    "step_seconds": _number(
        "pick.step_seconds", "step_seconds", "what a step costs before it does anything", unit="s", most=10.0
    ),
    "sequence_seconds": _number(
        "pick.sequence_seconds", "sequence_seconds", "what a running sequence adds to a step", unit="s", most=1.0
    ),
    "context_seconds": _number(
        "pick.context_seconds", "context_seconds", "what a token of context adds to a step", unit="s", most=1e-3
    ),
    "interference": _number(
        "pick.interference",
        "interference",
        "what a second that a running request waits for this prefill counts; 0 counts none",
        most=10.0,
    ),
    "decode": _number(
        "pick.decode",
        "decode",
        "what a second of decoding counts that the sequences and contexts of a replica add to this request",
        most=10.0,
    ),
    "adapter_seconds": _number(
        "pick.adapter_seconds", "adapter_seconds", "loading a LoRA adapter that is not there", unit="s", most=600.0
    ),
    "session_seconds": _number(
        "pick.session_seconds",
        "session_seconds",
        "what leaving the replica of the same session costs; 0 leaves that to the prefix",
        unit="s",
        most=600.0,
    ),
    "ramp_seconds": _number(
        "pick.ramp_seconds",
        "ramp_seconds",
        "how long a replica that begins to serve counts as busy as the mean, less and less",
        unit="s",
        most=3600.0,
    ),
    "hung_seconds": _number(
        "pick.hung_seconds",
        "hung_seconds",
        "how long a replica with work may show no progress, or be silent, before others are preferred",
        unit="s",
        least=0.2,
        most=600.0,
    ),
    "equal_seconds": _number(
        "pick.equal_seconds", "equal_seconds", "costs that lie so close are equal and rotate", unit="s", most=1.0
    ),
    "kv_tokens": _number(
        "pick.kv_tokens",
        "kv_tokens",
        "KV cache of a replica that does not tell its capacity, for the prefix index alone",
        unit="tokens",
        least=1,
        most=1e9,
    ),
    "pixel_steps_per_second": _number(
        "pick.pixel_steps_per_second",
        "pixel_steps_per_second",
        "what a diffusion replica works off: pixels × denoising steps × pictures",
        unit="1/s",
        least=1.0,
        most=1e15,
    ),
    "prefix_weight": _number("pick.prefix_weight", "prefix_weight", "cached part in the weighted sum", most=1000.0),
    "queue_weight": _number("pick.queue_weight", "queue_weight", "empty queue in the weighted sum", most=1000.0),
    "kv_weight": _number("pick.kv_weight", "kv_weight", "free KV cache in the weighted sum", most=1000.0),
}

TUNABLES: Final[tuple[Tunable, ...]] = tuple(_BY_FIELD.values())
_FIELDS: Final[Mapping[str, str]] = {tunable.name: field for field, tunable in _BY_FIELD.items()}


def tuned(base: PickSettings, fields: Mapping[str, str], last: PickSettings) -> tuple[PickSettings, dict[str, str]]:
    """`base` with what `fields` (name → text, those of `tune` or `tune:{cluster}`) sets, and what is refused and why.

    A bad value leaves that of `last`, the one in force. Fields that name no tunable here are left to others.
    """
    values, refused = read_fields(TUNABLES, fields, values_of(last, TUNABLES, _FIELDS))
    changed: dict[str, Any] = {_FIELDS[name]: value for name, value in values.items()}
    return replace(base, **changed), refused


def shown(settings: PickSettings) -> dict[str, Value]:
    """The values in force by tunable name."""
    return values_of(settings, TUNABLES, _FIELDS)

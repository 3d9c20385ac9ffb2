"""What a replica can deliver: measured from its own counters, and guessed from its number format until then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from tidegate.domain.sample import EndpointSample
from tidegate.domain.topology import Precision

RELATIVE_CAPACITY: Final[Mapping[Precision, float]] = {
    Precision.FP16: 1.0,
    Precision.BF16: 1.0,
    Precision.FP8: 1.0,
    Precision.INT8: 1.0,
    Precision.INT4: 1.36,
}
"""Tokens/s relative to FP16 of the same model and card. Source: design, policy 4 (INT4 measured as 1.36 times
FP16); formats without a measured figure count as FP16."""

SPELL_MS: Final = 1_000
"""One measurement: long enough for many engine steps, short enough to notice a replica that slows down."""
LONGEST_SPELL_MS: Final = 10_000
"""A spell between two samples that lie further apart is no measurement."""
FEWEST_RUNNING: Final = 0.5
"""Mean running requests under which a spell says nothing of the pace."""
PACE_ALPHA: Final = 0.4
"""What the newest spell counts: of a change, four fifths are known after three seconds."""
WIDTH_ALPHA: Final = 0.02
"""What the newest saturated spell counts once WIDTH_SPELLS are averaged: a width is learned slowly."""
WIDTH_SPELLS: Final = 15
"""Saturated spells before a width says anything: one second's batch is noise."""
QUEUED_PART: Final = 0.9
"""Part of a spell's samples with waiting requests from which on the replica counts as saturated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A measurement under way: what the first sample showed, and sums over the samples since."""

    began_ms: int
    generated: int
    last_ms: int
    running_ms: float = 0.0
    samples: int = 0
    queued: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was learned of one replica. None is unknown.

    `pace` is tokens/s that each running request gets, over the last seconds; `width` is how many requests run at
    saturation, so that tokens/s there are pace × width; `spells` are the saturated ones it was learned from.
    `saturated_tokens_per_second` is that product as it was measured.
    """

    spell: Spell | None = None
    pace: float | None = None
    width: float | None = None
    saturated_tokens_per_second: float | None = None
    spells: int = 0


NOTHING: Final = Measured()


def observe(before: Measured, sample: EndpointSample | None) -> Measured:
    """One more sample. One without counters, or of an engine that began anew, ends the spell and teaches nothing.

    A spell of at least a second gives pace = tokens generated / (seconds × mean running requests). One in which
    requests waited throughout also gives width = mean running requests, learned slowly. The same sample again
    changes nothing.
    """
    if sample is None or sample.generation_tokens_total is None or sample.running is None:
        return before if before.spell is None else _with_spell(before, None)
    at, generated, spell = sample.sampled_at_ms, sample.generation_tokens_total, before.spell
    if spell is not None and at == spell.last_ms:
        return before
    if spell is None or generated < spell.generated or not 0 < at - spell.last_ms <= LONGEST_SPELL_MS:
        return _with_spell(before, Spell(began_ms=at, generated=generated, last_ms=at))
    spell = Spell(
        began_ms=spell.began_ms,
        generated=spell.generated,
        last_ms=at,
        running_ms=spell.running_ms + sample.running * (at - spell.last_ms),
        samples=spell.samples + 1,
        queued=spell.queued + (1 if sample.waiting else 0),
    )
    if at - spell.began_ms < SPELL_MS:
        return _with_spell(before, spell)
    fresh = Spell(began_ms=at, generated=generated, last_ms=at)
    return _learned(_with_spell(before, fresh), spell, generated - spell.generated)


def _with_spell(before: Measured, spell: Spell | None) -> Measured:
    """`replace` in a third of its time: this runs for every replica and tick."""
    return Measured(
        spell=spell,
        pace=before.pace,
        width=before.width,
        saturated_tokens_per_second=before.saturated_tokens_per_second,
        spells=before.spells,
    )


def _learned(before: Measured, spell: Spell, tokens: int) -> Measured:
    seconds = (spell.last_ms - spell.began_ms) / 1000
    running = spell.running_ms / 1000 / seconds
    if running < FEWEST_RUNNING or tokens <= 0:
        return before
    paced = replace(before, pace=_towards(before.pace, tokens / seconds / running, PACE_ALPHA))
    if spell.queued < QUEUED_PART * spell.samples:
        return paced
    alpha = max(WIDTH_ALPHA, 1.0 / (before.spells + 1))
    return replace(
        paced,
        width=_towards(before.width, running, alpha),
        saturated_tokens_per_second=_towards(before.saturated_tokens_per_second, tokens / seconds, alpha),
        spells=before.spells + 1,
    )


def _towards(before: float | None, value: float, alpha: float) -> float:
    return value if before is None else before + alpha * (value - before)


def capacities(replicas: Mapping[str, tuple[Precision, Measured]]) -> dict[str, float]:
    """Relative capacity of each replica of a cluster, by address: in (0, 1], the largest is 1.

    A replica whose pace is known delivers pace × width, where a width that is not learned yet is the median of those
    that are (all alike while none is). One without pace counts as the median of the measured ones of its number
    format; without any, as its figure in RELATIVE_CAPACITY times the median of capacity / figure of the measured
    ones. With nothing measured the figures alone decide. Equal measurements give equal capacities.
    """
    measured = _measured(replicas)
    unit = median([value / RELATIVE_CAPACITY[replicas[a][0]] for a, value in measured.items()]) if measured else 1.0
    alike: dict[Precision, list[float]] = {}
    for address, value in measured.items():
        alike.setdefault(replicas[address][0], []).append(value)
    usual = {precision: median(values) for precision, values in alike.items()}
    guessed = {
        address: measured.get(address, usual.get(precision, unit * RELATIVE_CAPACITY[precision]))
        for address, (precision, _) in replicas.items()
    }
    largest = max(guessed.values(), default=1.0)
    return {address: value / largest for address, value in guessed.items()}


def _measured(replicas: Mapping[str, tuple[Precision, Measured]]) -> dict[str, float]:
    """pace × width by address, of the replicas whose pace is known."""
    widths = {address: one.width for address, (_, one) in replicas.items() if one.width and one.spells >= WIDTH_SPELLS}
    usual = median(widths.values()) if widths else 1.0
    return {address: one.pace * widths.get(address, usual) for address, (_, one) in replicas.items() if one.pace}

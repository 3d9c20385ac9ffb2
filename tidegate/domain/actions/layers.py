"""What acts change of what was decided without them: weights, retries, splits. Operators' orders stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.domain.actions.effects import Effects, Reduced
from tidegate.domain.split import split_key, text_of
from tidegate.domain.tuning import EVERYWHERE, Tunes
from tidegate.domain.weights import Decision

RETRIES = "envoy.retries"


@dataclass(frozen=True, slots=True)
class Acted:
    """A decision with what acts make of it. `frozen` is the weight that stays while weights are frozen."""

    decision: Decision
    act: str | None = None
    frozen: int | None = None


def acted(
    decided: Sequence[Decision],
    reduced: Mapping[str, Reduced],
    frozen: Mapping[str, int] | None,
    before: Mapping[str, int],
) -> list[Acted]:
    """The decisions of one cluster under acts.

    `reduced` are its replicas by address. `frozen` is None while weights move, else the weights that stay, by address;
    a replica without one stays at `before`, its last automatic weight, or begins where its automatic weight is. Drains,
    pins and replicas that take no traffic are as decided, and a replica that ramps up goes on. Acts leave somebody to
    serve: where they would drain all, each keeps the least weight.
    """
    layered = [_acted(one, reduced.get(one.address), frozen, before.get(one.address, 0)) for one in decided]
    if any(one.decision.weight for one in layered):
        return layered
    return [_spared(one, was) for one, was in zip(layered, decided, strict=True)]


def _acted(one: Decision, reduced: Reduced | None, frozen: Mapping[str, int] | None, before: int) -> Acted:
    if one.weight == 0 or one.pinned is not None or one.drained is not None:
        return Acted(one)
    stays = None if frozen is None else _stays(one, frozen.get(one.address), before)
    weight = one.automatic if stays is None else stays
    reason = one.reason if stays is None else f"frozen at {stays} by an act"
    if reduced is not None:
        weight = max(1, round(weight * reduced.ratio)) if reduced.ratio else 0
        word = f"reduced to × {reduced.ratio:g}" if reduced.ratio else "drained"
        reason = f"{word} by act {reduced.act}; {reason}"
    if weight == one.weight and reason == one.reason:
        return Acted(one)
    changed = replace(one, weight=weight, reason=reason, memory=replace(one.memory, weight=weight))
    return Acted(changed, reduced.act if reduced else None, stays)


def _stays(one: Decision, known: int | None, before: int) -> int:
    if one.memory.ramping_seconds is not None:
        return one.automatic
    return known or before or one.automatic


def _spared(one: Acted, was: Decision) -> Acted:
    if was.weight == 0 or was.pinned is not None or was.drained is not None:
        return one
    reason = f"{one.decision.reason}; nobody else serves, so it keeps the least weight"
    spared = replace(one.decision, weight=1, reason=reason, memory=replace(one.decision.memory, weight=1))
    return replace(one, decision=spared)


def retries_of(cluster: str, retries: int, effects: Effects, tunes: Tunes) -> int:
    """Envoy's retries of a cluster; as they are where an operator typed them."""
    typed = any(RETRIES in tunes.get(scope, {}) for scope in (EVERYWHERE, cluster))
    most = effects.retries.get(cluster)
    return retries if typed or most is None else min(retries, most)


def with_splits(tuned: Mapping[str, str], effects: Effects, models: Collection[str]) -> Mapping[str, str]:
    """`tuned` with the splits of acts, of `models` that no operator split: `split:{model}` → `stable=990 canary=10`."""
    if not effects.splits:
        return tuned
    shares = {model: tuple(parts.items()) for model, parts in effects.splits.items() if model in models}
    return {**{split_key(model): text_of(parts) for model, parts in shares.items()}, **tuned}

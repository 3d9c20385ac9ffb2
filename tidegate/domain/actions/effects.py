"""What all acts in force add up to: what the controller, xds, ext_proc and rollouts read.

Operators' keys win over effects: whoever applies an effect looks first whether an operator has typed something.
Among acts the safer one wins, whatever the order in which they came:

    frozen, held   everything that any act freezes or holds
    retries        the fewest
    reduced        the smallest ratio
    scale          the most replicas: the largest `to`, and the largest `by`
    splits         of the act that began first
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.domain.actions.act import Act, Kind


@dataclass(frozen=True, slots=True)
class Reduced:
    """A replica's automatic weight times `ratio` (0…1; 0: drained), by the act `act`."""

    ratio: float
    act: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Replicas that a cluster is to have: `to` (None: as otherwise decided), and `by` more than otherwise decided."""

    to: int | None
    by: int
    act: str

    def of(self, replicas: int) -> int:
        """How many, where `replicas` would be decided otherwise: never below 0."""
        return max(0, replicas + self.by if self.to is None else max(self.to, replicas + self.by if self.by else 0))


@dataclass(frozen=True, slots=True)
class Hold:
    """Requests of `classes`, or of a priority number above `less_urgent_than`, of `cluster` and `model` ("": of all).

    `until_ms` is when it ends at the latest.
    """

    act: str
    cluster: str = ""
    model: str = ""
    classes: frozenset[str] = frozenset()
    less_urgent_than: int | None = None
    until_ms: int | None = None

    def holds(self, cluster: str, model: str, class_name: str, priority: int) -> bool:
        """Whether such a request is held."""
        if (self.cluster and self.cluster != cluster) or (self.model and self.model != model):
            return False
        urgent = self.less_urgent_than is None or priority <= self.less_urgent_than
        return class_name in self.classes or not urgent


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """`frozen` ⊆ {"weights", "rollouts"}; `retries` at most, by cluster (0: cut); `reduced` by cluster and host:port;
    `scale` by cluster; `splits` by model: parts per thousand by cluster.
    """

    frozen: frozenset[str] = frozenset()
    holds: tuple[Hold, ...] = ()
    retries: Mapping[str, int] = field(default_factory=dict)
    reduced: Mapping[str, Mapping[str, Reduced]] = field(default_factory=dict)
    scale: Mapping[str, Scale] = field(default_factory=dict)
    splits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def held(self, cluster: str, model: str, class_name: str, priority: int) -> Hold | None:
        """The act that holds such a request: of several, the one that lasts longest."""
        found = [one for one in self.holds if one.holds(cluster, model, class_name, priority)]
        return max(found, key=lambda one: (one.until_ms is None, one.until_ms or 0, one.act), default=None)


NONE = Effects()


def summed(acts: Iterable[Act]) -> Effects:
    """The effects of acts in force. Dry runs do nothing. The order of `acts` does not matter."""
    real = sorted((act for act in acts if not act.dry_run), key=lambda act: (act.since_ms, act.id))
    of = {kind: [act for act in real if act.deed.kind is kind] for kind in Kind}
    return Effects(
        frozen=frozenset(what for act in of[Kind.FREEZE] for what in act.deed.what),
        holds=tuple(map(_hold, of[Kind.HOLD])),
        retries=_fewest(of[Kind.RETRIES]),
        reduced=_reduced(of[Kind.REDUCE]),
        scale=_scales(of[Kind.SCALE]),
        splits={act.deed.model: dict(act.deed.parts) for act in reversed(of[Kind.SPLIT])},
    )


def _hold(act: Act) -> Hold:
    deed = act.deed
    classes = frozenset(deed.classes)
    return Hold(act.id, deed.cluster, deed.model, classes, deed.less_urgent_than, act.until_ms)


def _fewest(acts: Sequence[Act]) -> dict[str, int]:
    found: dict[str, int] = {}
    for act in acts:
        found[act.deed.cluster] = min(act.deed.to or 0, found.get(act.deed.cluster, act.deed.to or 0))
    return found


def _reduced(acts: Sequence[Act]) -> dict[str, dict[str, Reduced]]:
    found: dict[str, dict[str, Reduced]] = {}
    for act in acts:
        replicas = found.setdefault(act.deed.cluster, {})
        known, ratio = replicas.get(act.deed.replica), act.deed.ratio or 0.0
        if known is None or ratio < known.ratio:
            replicas[act.deed.replica] = Reduced(ratio, act.id)
    return found


def _scales(acts: Sequence[Act]) -> dict[str, Scale]:
    found: dict[str, Scale] = {}
    for act in acts:
        known, deed = found.get(act.deed.cluster), act.deed
        if known is None:
            found[deed.cluster] = Scale(deed.to, deed.by or 0, act.id)
            continue
        goals = [to for to in (known.to, deed.to) if to is not None]
        steps = [by for by in (known.by, deed.by) if by]
        found[deed.cluster] = Scale(max(goals, default=None), max(steps, default=0), known.act)
    return found

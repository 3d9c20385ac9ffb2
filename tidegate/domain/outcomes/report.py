"""What instances of the outcomes service tell, and what their readers make of it together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.domain.outcomes.ending import ENDINGS, Ending
from tidegate.domain.outcomes.slo import Spans
from tidegate.domain.outcomes.tally import Tally, Told, merged, tally_of
from tidegate.domain.outcomes.version import Versions


@dataclass(frozen=True, slots=True)
class Report:
    """What one instance counted in its last minute: by cluster and replica, and by model for its objectives.

    `versions` are by model and cluster, of the last minute and of all since the instance began; `run` names that
    life of the instance, so that a restart is seen ("": it tells nothing).
    """

    clusters: Mapping[str, Mapping[str, Told]] = field(default_factory=dict)
    models: Mapping[str, Spans] = field(default_factory=dict)
    versions: Versions = field(default_factory=dict)
    run: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of the last minute's requests to one replica, or to one cluster.

    `per_second` is the rate of requests that ended; `ever` are counts since the instances that tell began, in the
    order of ENDINGS: they fall when an instance ends.
    """

    tally: Tally
    per_second: float
    ever: tuple[int, ...]

    @property
    def error_ratio(self) -> float | None:
        """Faults of those answered, 0…1; None without any."""
        return self.tally.ratio(Ending.FAULT)


def replicas_seen(reports: Iterable[Report]) -> dict[str, dict[str, Seen]]:
    """By cluster and replica, what all instances counted together."""
    told: dict[str, dict[str, list[Told]]] = {}
    for report in reports:
        for cluster, replicas in report.clusters.items():
            for replica, one in replicas.items():
                told.setdefault(cluster, {}).setdefault(replica, []).append(one)
    return {c: {r: _together(parts) for r, parts in replicas.items()} for c, replicas in told.items()}


def cluster_seen(replicas: Iterable[Seen]) -> Seen:
    """A cluster out of its replicas."""
    parts = list(replicas)
    return Seen(
        tally=merged(one.tally for one in parts),
        per_second=sum(one.per_second for one in parts),
        ever=_added(one.ever for one in parts),
    )


def models_seen(reports: Iterable[Report]) -> dict[str, Spans]:
    """By model, what all instances counted for its objectives."""
    found: dict[str, Spans] = {}
    for report in reports:
        for model, spans in report.models.items():
            found[model] = found[model].plus(spans) if model in found else spans
    return found


def _together(parts: list[Told]) -> Seen:
    return Seen(
        tally=merged(map(tally_of, parts)),
        per_second=sum(sum(one.counts) * 1000 / max(1, one.span_ms) for one in parts),
        ever=_added(one.ever for one in parts),
    )


def _added(counts: Iterable[Iterable[int]]) -> tuple[int, ...]:
    total = [0] * len(ENDINGS)
    for one in counts:
        total = [mine + theirs for mine, theirs in zip(total, one, strict=False)]
    return tuple(total)

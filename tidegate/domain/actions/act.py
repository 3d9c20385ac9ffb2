"""One act: what it does, to whom, because of what, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What an act does.

    SCALE    replicas of a cluster: `to` so many, or `by` more or fewer
    REDUCE   a replica's automatic weight times `ratio`; 0 drains it
    RETRIES  Envoy's retries of a cluster are at most `to`; 0 cuts them
    HOLD     requests of `classes`, or less urgent than `less_urgent_than`, are answered 429 `held`
    FREEZE   `what`: "weights" keep their values, "rollouts" take no step
    SPLIT    a model's versions get `parts` per thousand
    """

    SCALE = "scale"
    REDUCE = "reduce"
    RETRIES = "retries"
    HOLD = "hold"
    FREEZE = "freeze"
    SPLIT = "split"


WEIGHTS = "weights"
ROLLOUTS = "rollouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is done: a kind and the fields that it reads; the others stay as they are.

    `cluster`, `replica` (host:port) and `model` are whom it is done to; "" is everyone, where the kind allows that
    (HOLD). `to` and `by` count replicas or retries; `ratio` is 0…1; `parts` sum to 1000, by cluster;
    `less_urgent_than` is a priority: a request of a greater number is held.
    """

    kind: Kind
    cluster: str = ""
    replica: str = ""
    model: str = ""
    to: int | None = None
    by: int | None = None
    ratio: float | None = None
    classes: tuple[str, ...] = ()
    less_urgent_than: int | None = None
    what: tuple[str, ...] = ()
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """Whom, in words without spaces but one: `phi-3`, `phi-3 10.0.0.5:8000`, `everything`, `weights,rollouts`."""
        if self.kind is Kind.FREEZE:
            return ",".join(self.what)
        return " ".join(part for part in (self.cluster, self.replica, self.model) if part) or "everything"

    @property
    def value(self) -> str:
        """What with, in a few words: `by +1`, `to 0`, `× 0.5`, `classes batch`, `stable=900 canary=100`."""
        return ", ".join(
            [
                *([f"to {self.to}"] if self.to is not None else []),
                *([f"by {self.by:+d}"] if self.by is not None else []),
                *([f"× {self.ratio:g}"] if self.ratio is not None else []),
                *([f"classes {' '.join(self.classes)}"] if self.classes else []),
                *([f"less urgent than {self.less_urgent_than}"] if self.less_urgent_than is not None else []),
                *([" ".join(f"{name}={part}" for name, part in self.parts.items())] if self.parts else []),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A deed in force from `since_ms` until `until_ms` at the latest (Unix milliseconds; None: until it is undone).

    `rule` is the rule of the file, or the built-in rule, that asked for it; `cause` what made it, as people read it:
    `alert HighLatency`, `annotation 17`. `dry_run`: it is told, and nothing follows from it.
    """

    id: str
    deed: Deed
    rule: str
    cause: str
    since_ms: int
    until_ms: int | None = None
    dry_run: bool = False

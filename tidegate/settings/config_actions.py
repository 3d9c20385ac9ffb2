"""`actions` of the file: which alert or annotation does what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tidegate.domain.actions.act import Deed, Kind
from tidegate.domain.actions.rules import LABEL_MARK, Actions, Matcher, Rule
from tidegate.domain.flow.classes import LEAST_URGENT, MOST_URGENT, WORDS
from tidegate.domain.lifetime import duration_ms
from tidegate.domain.topology import split_address

MOST_REPLICAS: Final = 10_000
DEEDS: Final = ("scale", "drain", "reduce", "retries", "hold", "freeze", "split")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,127}", re.ASCII)
_PLAIN: Final = re.compile(r"[^\s$/][^\s]{0,255}")


def _target(text: str) -> str:
    if text.startswith(LABEL_MARK):
        _label(text[len(LABEL_MARK) :])
    elif not _PLAIN.fullmatch(text):
        raise ValueError(f"{text!r} is neither a name nor a label such as {LABEL_MARK}cluster")
    return text


def _replica(text: str) -> str:
    if not text.startswith(LABEL_MARK):
        split_address(text)
    return _target(text)


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError(f"{text!r} is no label: letters, digits and '_'")
    return text


def _duration(text: str) -> str:
    duration_ms(text)
    return text


def _wanted(text: str) -> str:
    if _is_pattern(text):
        try:
            re.compile(text[1:-1])
        except re.error as exc:
            raise ValueError(f"{text!r} is no regular expression: {exc}") from None
    return text


def _is_pattern(text: str) -> bool:
    return len(text) > 1 and text.startswith("/") and text.endswith("/")


def _priority(value: Any) -> Any:
    return WORDS.get(value, value) if isinstance(value, str) else value


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


Target = Annotated[str, AfterValidator(_target)]
Replica = Annotated[str, AfterValidator(_replica)]
Label = Annotated[str, AfterValidator(_label)]
Duration = Annotated[str, AfterValidator(_duration)]
Wanted = Annotated[list[Annotated[str, AfterValidator(_wanted)]], BeforeValidator(_listed), Field(min_length=1)]
Texts = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=256)]], BeforeValidator(_listed), Field(min_length=1)
]
Priority = Annotated[int, BeforeValidator(_priority), Field(ge=MOST_URGENT, le=LEAST_URGENT)]


class Section(BaseModel):
    """As all of the file: strict, and without keys that nobody knows."""

    # Stated in each module of sections: ruff tells models, whose defaults may be lists, by a base class that it sees.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ScaleSection(Section):
    """`scale`: a cluster is to have `to` replicas, or `by` more."""

    cluster: Target
    to: int | None = Field(default=None, ge=0, le=MOST_REPLICAS)
    by: int | None = Field(default=None, ge=-MOST_REPLICAS, le=MOST_REPLICAS)

    @model_validator(mode="after")
    def _one(self) -> ScaleSection:
        if (self.to is None) == (self.by is None):
            raise ValueError("needs one of to and by")
        return self


class DrainSection(Section):
    """`drain`: a replica gets no new traffic."""

    cluster: Target
    replica: Replica


class ReduceSection(DrainSection):
    """`reduce`: a replica gets `ratio` of its automatic weight."""

    ratio: float = Field(gt=0, lt=1)


class RetriesSection(Section):
    """`retries`: Envoy tries at most `to` other replicas of a cluster."""

    cluster: Target
    to: int = Field(default=0, ge=0, le=5)


class HoldSection(Section):
    """`hold`: such requests are answered 429."""

    cluster: Target | None = None
    model: Target | None = None
    classes: Annotated[list[Target], BeforeValidator(_listed)] = []
    less_urgent_than: Priority | None = None

    @model_validator(mode="after")
    def _any(self) -> HoldSection:
        if not self.classes and self.less_urgent_than is None:
            raise ValueError("holds nothing; give classes or less_urgent_than")
        return self


class ActionSplitSection(Section):
    """`split`: a model's versions get `parts`."""

    model: Target
    parts: dict[str, Annotated[int, Field(ge=0, le=1000)]]


class RuleSection(Section):
    """`actions.rules[]`: one alert or annotation, and what it does."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    alert: Texts | None = None
    annotation: Texts | None = None
    labels: dict[Label, Wanted] = {}
    lasts: Duration = "1h"
    at_most: Duration = "24h"
    dry_run: bool = False
    scale: ScaleSection | None = None
    drain: DrainSection | None = None
    reduce: ReduceSection | None = None
    retries: RetriesSection | None = None
    hold: HoldSection | None = None
    freeze: Annotated[list[Literal["weights", "rollouts"]], BeforeValidator(_listed), Field(min_length=1)] | None = None
    split: ActionSplitSection | None = None

    @model_validator(mode="after")
    def _whole(self) -> RuleSection:
        if (self.alert is None) == (self.annotation is None):
            raise ValueError("needs one of alert and annotation")
        if all(getattr(self, name) is None for name in DEEDS):
            raise ValueError(f"does nothing; give one or more of {', '.join(DEEDS)}")
        if duration_ms(self.lasts) > duration_ms(self.at_most):
            raise ValueError(f"lasts {self.lasts}, which is more than at_most, {self.at_most}")
        return self


class ActionsSection(Section):
    """`actions`: alerts that act."""

    dry_run: bool = False
    rules: list[RuleSection] = []


def actions_of(section: ActionsSection) -> Actions:
    """The rules as the domain knows them."""
    return Actions(tuple(map(_rule, section.rules)), section.dry_run)


def _rule(section: RuleSection) -> Rule:
    return Rule(
        name=section.name,
        alerts=tuple(section.alert or ()),
        tags=tuple(section.annotation or ()),
        labels=tuple((label, _matcher(wanted)) for label, wanted in section.labels.items()),
        deeds=tuple(_deeds(section)),
        for_ms=duration_ms(section.lasts),
        at_most_ms=duration_ms(section.at_most),
        dry_run=section.dry_run,
    )


def _matcher(wanted: list[str]) -> Matcher:
    patterns = [one[1:-1] for one in wanted if _is_pattern(one)]
    pattern = re.compile("|".join(f"(?:{one})" for one in patterns)) if patterns else None
    return Matcher(tuple(one for one in wanted if not _is_pattern(one)), pattern)


def _deeds(rule: RuleSection) -> Iterator[Deed]:
    if (scale := rule.scale) is not None:
        yield Deed(kind=Kind.SCALE, cluster=scale.cluster, to=scale.to, by=scale.by)
    if (drain := rule.drain) is not None:
        yield Deed(kind=Kind.REDUCE, cluster=drain.cluster, replica=drain.replica, ratio=0.0)
    if (reduce := rule.reduce) is not None:
        yield Deed(kind=Kind.REDUCE, cluster=reduce.cluster, replica=reduce.replica, ratio=reduce.ratio)
    if (retries := rule.retries) is not None:
        yield Deed(kind=Kind.RETRIES, cluster=retries.cluster, to=retries.to)
    if (hold := rule.hold) is not None:
        yield Deed(
            kind=Kind.HOLD,
            cluster=hold.cluster or "",
            model=hold.model or "",
            classes=tuple(hold.classes),
            less_urgent_than=hold.less_urgent_than,
        )
    if rule.freeze is not None:
        yield Deed(kind=Kind.FREEZE, what=tuple(sorted(set(rule.freeze))))
    if (split := rule.split) is not None:
        yield Deed(kind=Kind.SPLIT, model=split.model, parts=split.parts)

"""Which notices do what: the rules of the file, and the deeds that a notice's labels fill in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidegate.domain.actions.act import Deed
from tidegate.domain.topology import split_address

LABEL_MARK: Final = "$"
"""A target `$cluster` is the value of the notice's label `cluster`."""


class Unfit(ValueError):  # noqa: N818 - what the notice is
    """A notice that no rule can act on. The text is one sentence for whoever sent it; `reason` is for counting."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Matcher:
    """A label is one of `words`, or matches `pattern` as a whole."""

    words: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    def matches(self, value: str | None) -> bool:
        """Whether a label of that value does; None: the notice lacks it."""
        if value is None:
            return False
        return value in self.words or (self.pattern is not None and self.pattern.fullmatch(value) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Notices of one of these `alerts`, or annotations with all `tags`, whose `labels` match, do `deeds`.

    An act ends `for_ms` after its notice was last heard, and `at_most_ms` after it began. Targets of deeds may name
    labels (LABEL_MARK).
    """

    name: str
    alerts: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    labels: tuple[tuple[str, Matcher], ...] = ()
    deeds: tuple[Deed, ...] = ()
    for_ms: int = 3_600_000
    at_most_ms: int = 86_400_000
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Actions:
    """The rules of the file, in its order. With `dry_run` every act is told, and none does anything."""

    rules: tuple[Rule, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one rule asks for because of one notice: a deed whose targets are filled in."""

    rule: str
    deed: Deed
    for_ms: int
    at_most_ms: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What targets may name: a label that names something else makes its notice unfit."""

    clusters: Collection[str]
    classes: Collection[str] = ()
    models: Collection[str] = ()


class Rules:
    """Finds what a notice asks for."""

    def __init__(self, actions: Actions, known: Known) -> None:
        self._rules, self._known, self._dry_run = actions.rules, known, actions.dry_run

    @property
    def names(self) -> frozenset[str]:
        """Of every rule."""
        return frozenset(rule.name for rule in self._rules)

    def of_alert(self, name: str, labels: Mapping[str, str]) -> tuple[Order, ...]:
        """What an alert asks for. Raises Unfit where no rule matches, or one that does lacks a label."""
        named = [rule for rule in self._rules if name in rule.alerts]
        if not named:
            raise Unfit("unknown", f"alert {name!r}: no rule of `actions` names it")
        return self._orders(f"alert {name!r}", named, labels)

    def of_annotation(self, tags: Collection[str], labels: Mapping[str, str]) -> tuple[Order, ...]:
        """What an annotation asks for. Raises Unfit likewise."""
        named = [rule for rule in self._rules if rule.tags and set(rule.tags) <= set(tags)]
        if not named:
            raise Unfit("unknown", f"annotation: no rule of `actions` wants tags among {sorted(tags)}")
        return self._orders("annotation", named, labels)

    def _orders(self, who: str, named: Sequence[Rule], labels: Mapping[str, str]) -> tuple[Order, ...]:
        matched = [rule for rule in named if all(one.matches(labels.get(label)) for label, one in rule.labels)]
        if not matched:
            wanted = ", ".join(sorted({label for rule in named for label, _ in rule.labels}))
            raise Unfit("labels", f"{who}: the labels {wanted} match no rule that names it")
        return tuple(self._order(who, rule, deed, labels) for rule in matched for deed in rule.deeds)

    def _order(self, who: str, rule: Rule, deed: Deed, labels: Mapping[str, str]) -> Order:
        filled = _filled(deed, labels, lambda label: _missing(who, rule.name, label))
        if why := self._unknown(filled):
            raise Unfit("target", f"{who}: rule {rule.name!r}: {why}")
        dry_run = rule.dry_run or self._dry_run
        return Order(rule=rule.name, deed=filled, for_ms=rule.for_ms, at_most_ms=rule.at_most_ms, dry_run=dry_run)

    def _unknown(self, deed: Deed) -> str | None:
        """Why a target is none, as half a sentence."""
        known = self._known
        if deed.cluster and deed.cluster not in known.clusters:
            return f"there is no cluster {deed.cluster!r}"
        if deed.model and deed.model not in known.models:
            return f"nothing has the model {deed.model!r}"
        strange = sorted(set(deed.classes) - set(known.classes))
        if strange:
            return f"there is no class {strange[0]!r}"
        if deed.replica:
            try:
                split_address(deed.replica)
            except ValueError:
                return f"{deed.replica!r} is no host:port"
        return None


def _missing(who: str, rule: str, label: str) -> Unfit:
    return Unfit("labels", f"{who}: rule {rule!r} needs the label {label!r}, which it lacks")


def _filled(deed: Deed, labels: Mapping[str, str], missing: Callable[[str], Unfit]) -> Deed:
    def fill(text: str) -> str:
        if not text.startswith(LABEL_MARK):
            return text
        value = labels.get(text[len(LABEL_MARK) :])
        if not value:
            raise missing(text[len(LABEL_MARK) :])
        return value

    return replace(
        deed,
        cluster=fill(deed.cluster),
        replica=fill(deed.replica),
        model=fill(deed.model),
        classes=tuple(map(fill, deed.classes)),
    )

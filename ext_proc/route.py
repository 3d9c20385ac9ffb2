"""A request → cluster: rules and names of the configuration file, then what only engines list.

name as sent ──▶ alias? ──▶ a version that the client asks for ──▶ that version's cluster
                                   │ none
                                   ▼
                    first rule that holds ──▶ its cluster (and its name, if it gives one)
                                   │ none
                                   ▼
                    the model's split ──▶ the cluster of the user's version
                                   │ none
                                   ▼
                    the cluster that lists the name, in the file or by its engines
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from random import getrandbits

from ext_proc.splits import Caller, SplitBook, Versions
from tidegate.domain.matching import Asked, holds
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import RouteRule
from tidegate.domain.tokens import FIRST_RATIO, estimate_tokens
from tidegate.domain.topology import Topology

LONGEST_COUNTED = 256
SHOWN_CHARACTERS = 100
"""Characters of a client's model name that are repeated to it."""

Header = Callable[[str], str | None]
Lookup = Callable[[str], str | None]
"""Model name → the cluster whose engines list it, None when none does."""
Ratios = Callable[[str], float]
"""Cluster → characters a token of its model."""


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a request goes.

    `write_model` is the name that has to stand in the body; None leaves the body as it is. `adapter` is the name
    when only some of the cluster's replicas may have it, so that those which list it are preferred. `shadowed` is the
    model when the file has shadows of it, `version` the cluster again when the model's split chose it.
    """

    cluster: str
    write_model: str | None = None
    adapter: str | None = None
    shadowed: str | None = None
    version: str | None = None


class Routes:
    """Immutable but for what `listed` and `ratio_of` tell."""

    def __init__(
        self,
        topology: Topology,
        listed: Lookup = lambda _: None,
        ratio_of: Ratios = lambda _: FIRST_RATIO,
        versions: Versions | None = None,
    ) -> None:
        self._homes = {name: c.name for c in topology.clusters for name in (*c.models, *c.loras)}
        self._adapters = frozenset(name for c in topology.clusters for name in c.loras)
        self._aliases = dict(topology.aliases)
        self._default = topology.default_model
        self._listed, self._ratio_of = listed, ratio_of
        self._rules = _by_name(topology.routes, self._aliases)
        self._rules_of_any = _that_may_hold(topology.routes, ())
        self._counting = _first_clusters(topology)
        self._shadowed = frozenset(shadow.model for shadow in topology.shadows)
        self._versions = versions or Versions(SplitBook(topology), lambda _: True, lambda: getrandbits(64))

    def model_of(self, info: RequestInfo, there: Routed) -> str:
        """The model that a request came to, for those who count: "" where its name is no plausible one."""
        name = there.write_model or info.model or self._default or ""
        return name if len(name) <= LONGEST_COUNTED and name.isprintable() else ""

    def route(self, info: RequestInfo, header: Header, address: str | None = None) -> Routed:
        """Where `info` goes; `header` gives a header's value by its lower-case name, `address` is the client's ip:port.

        Raises Refusal: model-required, model-not-found, or invalid-request for what cannot be a name or a version.
        """
        sent = info.model or self._default
        name = sent if sent is None else self._aliases.get(sent, sent)
        caller, split = Caller(info.user, header, address), self._versions.split(name)
        asking = self._versions.asking(split, header)
        if split is not None and (asking.version or asking.canary):
            return self._version(self._versions.choose(split, caller, asking), name, sent)
        avoided = split.canary if split is not None and asking.canary is False else ()
        rule = self._rule(info, sent, name, caller, avoided)
        if rule is not None:
            return self._routed(rule.cluster, rule.model or name, sent)
        if name is None or sent is None:
            raise Refusal(Reason.MODEL_REQUIRED, "The body must name a `model`.", param="model")
        if split is not None:
            return self._version(self._versions.choose(split, caller, asking), name, sent)
        cluster = self._homes.get(name) or self._listed(name)
        if cluster is None:
            raise _unknown(sent)
        return self._routed(cluster, name, sent)

    def _rule(
        self, info: RequestInfo, sent: str | None, name: str | None, caller: Caller, avoided: Collection[str]
    ) -> RouteRule | None:
        """The first rule that holds, of those that lead to none of the clusters that the client avoids."""
        rules = self._rules_of_any if sent is None else self._rules.get(sent, self._rules_of_any)
        if not rules:
            return None
        names = tuple(one for one in (sent, name) if one is not None)
        ratio = self._ratio_of(self._home_or_ruled(name))
        asked = Asked(info, names, estimate_tokens(info, ratio), caller.header)
        held = (rule for rule in rules if holds(rule.match, asked) and self._versions.within(rule, caller))
        return next((rule for rule in held if rule.cluster not in avoided), None)

    def _routed(self, cluster: str, name: str | None, sent: str | None, version: str | None = None) -> Routed:
        everywhere = name in self._homes and name not in self._adapters
        shadowed = name if name in self._shadowed else None
        return Routed(cluster, None if name == sent else name, None if everywhere else name, shadowed, version)

    def _version(self, cluster: str, name: str | None, sent: str | None) -> Routed:
        return self._routed(cluster, name, sent, cluster)

    def _home_or_ruled(self, name: str | None) -> str:
        """The cluster whose ratio counts a name's tokens: the same for every rule, so that ranges leave no gap."""
        if name is None:
            return ""
        return self._homes.get(name) or self._counting.get(name) or ""


def _by_name(rules: tuple[RouteRule, ...], aliases: Mapping[str, str]) -> dict[str, tuple[RouteRule, ...]]:
    """For each name that a rule or an alias concerns, the rules that may hold for it, in file order."""
    ruled = {rule.match.model for rule in rules if rule.match.model is not None}
    return {name: _that_may_hold(rules, (name, aliases.get(name, name))) for name in ruled | aliases.keys()}


def _that_may_hold(rules: Iterable[RouteRule], names: tuple[str, ...]) -> tuple[RouteRule, ...]:
    return tuple(rule for rule in rules if rule.match.model is None or rule.match.model in names)


def _first_clusters(topology: Topology) -> dict[str, str]:
    found = {split.model: split.parts[0][0] for split in topology.splits}
    for rule in topology.routes:
        if rule.match.model is not None:
            found.setdefault(rule.match.model, rule.cluster)
    return found


def _unknown(model: str) -> Refusal:
    if not model.isprintable():
        message = "`model` contains characters that no model name has."
        return Refusal(Reason.INVALID_REQUEST, message, param="model")
    shown = model if len(model) <= SHOWN_CHARACTERS else model[:SHOWN_CHARACTERS] + "…"
    return Refusal(Reason.MODEL_NOT_FOUND, f"The model `{shown}` does not exist.", param="model")

"""Every tunable of the product, in one registry: what may stand in `tune` and `tune:{cluster}`, and what may not.

A module that reads tunables declares them as a tuple of Tunable; GROUPS names it here. The docs, `tidegate tune list`,
validation and `rejected` follow from that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tidegate.domain import ewma, healing, load, upstream, weight_settings
from tidegate.domain.flow import settings as flow
from tidegate.domain.pick import settings as pick
from tidegate.domain.scaling import settings as scaling
from tidegate.domain.tunable import Tunable

EVERYWHERE: Final = ""
"""The scope of `tune`: every cluster."""
MOST_UNKNOWN: Final = 100
"""Names of no tunable that are looked at in one key: each is compared with all that there are."""

Tunes = Mapping[str, Mapping[str, str]]
"""What operators typed: by scope (a cluster, or EVERYWHERE), name → text."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tunables that belong together. `acts` says, as a sentence, who follows them and how soon."""

    title: str
    acts: str
    tunables: tuple[Tunable, ...]


GROUPS: Final = (
    Group(
        "How full a replica is",
        "The controller follows at its next look, four a second.",
        load.TUNABLES,
    ),
    Group(
        "Which share of the traffic a replica gets",
        "The controller follows at its next look, four a second.",
        weight_settings.TUNABLES + ewma.TUNABLES,
    ),
    Group("How Envoy treats a cluster", "Envoy has a change within a second.", upstream.TUNABLES),
    Group("Which replica ext_proc picks", "In `pick` clusters, from the next request on.", pick.TUNABLES),
    Group("Requests that wait in the gateway", "From the next request on.", flow.TUNABLES),
    Group("What is done about faults", "The controller follows within two seconds.", healing.TUNABLES),
    Group("How many replicas a cluster should have", "The controller follows within a second.", scaling.TUNABLES),
)

REGISTRY: Final[Mapping[str, Tunable]] = {t.name: t for group in GROUPS for t in group.tunables}


def find(name: str) -> Tunable:
    """The tunable of that name. Raises ValueError with a sentence that says which one may be meant."""
    if name in REGISTRY:
        return REGISTRY[name]
    shown = name if len(name) <= 60 else name[:60] + "…"
    near = get_close_matches(name[:60], REGISTRY, n=1, cutoff=0.6)
    meant = f"did you mean {near[0]}?" if near else "`tidegate tune list` names them all"
    raise ValueError(f"there is no tunable {shown!r}; {meant}")


def check(scope: str, name: str, text: str) -> str | None:
    """Why `text` cannot stand for `name` in that scope, as a sentence; None when it can."""
    try:
        tunable = find(name)
        tunable.read(text)
    except ValueError as exc:
        return str(exc)
    if scope != EVERYWHERE and not tunable.per_cluster:
        return f"{name} holds for every cluster; set it in tune"
    return None


def without_most_unknown(tunes: Tunes) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """`tunes`, of names that no tunable has the first 100 a scope; and what is said of the others, by key."""
    kept, said = {}, {}
    for scope, fields in tunes.items():
        unread = set(sorted(fields.keys() - REGISTRY.keys())[MOST_UNKNOWN:])
        kept[scope] = {name: text for name, text in fields.items() if name not in unread}
        if unread:
            key = tune_key(scope, "").rstrip()
            said[key] = f"holds {len(unread) + MOST_UNKNOWN} names of no tunable; remove them with HDEL"
    return kept, said


def tune_key(scope: str, name: str) -> str:
    """How `rejected` and `events` name a field: `tune load.vram`, `tune:phi-3 load.vram`."""
    return f"tune:{scope} {name}" if scope else f"tune {name}"


def check_tunes(tunes: Tunes, last_good: Mapping[str, str] | None = None) -> dict[str, str]:
    """Why fields of `tunes` are not accepted: `tune:phi-3 load.vram` → a sentence, with what stays in force. Pure."""
    faults = ((scope, name, check(scope, name, text)) for scope, name, text in _fields(tunes))
    return {tune_key(scope, name): why + _stays(scope, name, last_good or {}) for scope, name, why in faults if why}


def _stays(scope: str, name: str, last_good: Mapping[str, str]) -> str:
    last = last_good.get(tune_key(scope, name))
    if last is not None and check(scope, name, last) is None:
        return f"; the last good value {last} stays in force"
    return "; what was in force stays" if name in REGISTRY else ""


def good_tunes(tunes: Tunes, last_good: Mapping[str, str], broken: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """`tunes` with nothing bad in it: a bad text gives way to that of `last_good`, by tune_key, or leaves.

    `broken` are keys that cannot be read, `tune` or `tune:{cluster}`: all of theirs in `last_good` stays. What
    `last_good` holds is checked as well, since an earlier release may have written it.
    """
    kept: dict[str, dict[str, str]] = {}
    for scope, name, typed in [*_unreadable(last_good, broken), *_fields(tunes)]:
        for text in (typed, last_good.get(tune_key(scope, name))):
            if text is not None and check(scope, name, text) is None:
                kept.setdefault(scope, {})[name] = text
                break
    return kept


def typed_for(cluster: str, tunes: Tunes) -> dict[str, str]:
    """What was typed that holds for a cluster, by name: its own scope wins over EVERYWHERE."""
    return {**tunes.get(EVERYWHERE, {}), **tunes.get(cluster, {})}


def in_force(name: str, cluster: str, good: Tunes) -> tuple[str | None, str]:
    """The text in force for a cluster and where it comes from: `tune:{cluster}`, `tune`, or None and `default`."""
    for scope, origin in ((cluster, f"tune:{cluster}"), (EVERYWHERE, "tune")):
        if (text := good.get(scope, {}).get(name)) is not None:
            return text, origin
    return None, "default"


def flat(tunes: Tunes) -> dict[str, str]:
    """Every field by its tune_key."""
    return {tune_key(scope, name): text for scope, name, text in _fields(tunes)}


def _unreadable(last_good: Mapping[str, str], broken: Collection[str]) -> Iterator[tuple[str, str, str]]:
    for full, text in last_good.items():
        key, _, name = full.partition(" ")
        if key in broken:
            yield key.partition(":")[2], name, text


def _fields(tunes: Tunes) -> Iterator[tuple[str, str, str]]:
    return ((scope, name, text) for scope, fields in tunes.items() for name, text in fields.items())

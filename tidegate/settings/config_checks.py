"""What is wrong only when keys are compared: names given twice, names that nothing has, splits that do not add up.

The checks look at plain values and skip what has the wrong type, so that one bad value hides no other fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.domain.routing import PERMILLE
from tidegate.domain.topology import split_address
from tidegate.settings.config_action_checks import action_faults
from tidegate.settings.config_sentences import nearest
from tidegate.settings.config_tree import Fault, Path, Tree, path_text


def cross_faults(tree: Tree) -> list[Fault]:
    """Every fault between keys of the file."""
    clusters = [(path, one) for path, one in _items(tree.value, "clusters") if isinstance(one, dict)]
    names = [one["name"] for _, one in clusters if isinstance(one.get("name"), str)]
    return [
        *_names_twice(tree, clusters),
        *_models_twice(tree, clusters),
        *(fault for path, one in clusters for fault in _addresses_twice(tree, path, one)),
        *_unknown_in_routes(tree, names),
        *_headers_twice(tree, "routes"),
        *_headers_twice(tree, "classes"),
        *_classes_twice(tree),
        *_split_faults(tree, names),
        *_shadow_faults(tree, clusters, names),
        *_alias_faults(tree, clusters),
        *_slos_of_nothing(tree, clusters),
        *_default_without_cluster(tree, clusters),
        *action_faults(tree, names, [*_own_names(clusters), *_names_elsewhere(tree)]),
    ]


def _items(holder: Any, key: str, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    listed = holder.get(key) if isinstance(holder, dict) else None
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        yield (*at, key, index), item


def _pairs(holder: Any, key: str, at: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    mapped = holder.get(key) if isinstance(holder, dict) else None
    for name, value in (mapped if isinstance(mapped, dict) else {}).items():
        yield (*at, key, name), name, value


def _names_twice(tree: Tree, clusters: list[tuple[Path, dict[str, Any]]]) -> Iterator[Fault]:
    first: dict[str, Path] = {}
    for path, cluster in clusters:
        name = cluster.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            line = tree.line((*first[name], "name"))
            yield tree.fault((*path, "name"), f"{name!r} is the name of {path_text(first[name])} too (line {line})")
        first.setdefault(name, path)


def _models_twice(tree: Tree, clusters: list[tuple[Path, dict[str, Any]]]) -> Iterator[Fault]:
    first: dict[str, tuple[Path, Any]] = {}
    for at, cluster in clusters:
        for path, model in (*_items(cluster, "models", at), *_items(cluster, "loras", at)):
            if not isinstance(model, str):
                continue
            if model in first:
                where, owner = first[model]
                line = tree.line(where)
                yield tree.fault(path, f"{model!r} is a model of cluster {owner!r} already (line {line})")
            first.setdefault(model, (path, cluster.get("name")))


def _alias_faults(tree: Tree, clusters: list[tuple[Path, dict[str, Any]]]) -> Iterator[Fault]:
    """An alias is no model, leads to a name that something has, and never back to itself."""
    own = _own_names(clusters)
    aliases = {name: target for _, name, target in _pairs(tree.value, "aliases") if isinstance(target, str)}
    known = [*own, *_names_elsewhere(tree), *aliases]
    for path, name, target in _pairs(tree.value, "aliases"):
        if name in own:
            yield tree.fault(path, f"{name!r} is a model already; an alias needs a name of its own")
        elif isinstance(target, str) and target not in known:
            yield tree.fault(path, f"nothing has the model {target!r}{nearest(target, known)}")
        elif name == _first_of_circle(name, aliases):
            yield tree.fault(path, f"{name!r} leads back to itself; it has to end at a model")


def _first_of_circle(name: str, aliases: dict[str, str]) -> str | None:
    """The alias of `name`'s circle that stands first in the file; None when it leads to an end or to another circle."""
    circle = [name]
    while (step := aliases.get(circle[-1])) is not None and step not in circle:
        circle.append(step)
    return next(one for one in aliases if one in circle) if step == name else None


def _own_names(clusters: list[tuple[Path, dict[str, Any]]]) -> list[str]:
    """Models and adapters of every cluster."""
    listed = [one for _, cluster in clusters for key in ("models", "loras") for _, one in _items(cluster, key)]
    return [one for one in listed if isinstance(one, str)]


def _names_elsewhere(tree: Tree) -> list[str]:
    """Models that splits or rules name: no cluster has to list those."""
    matches = [route.get("match") for _, route in _items(tree.value, "routes") if isinstance(route, dict)]
    ruled = [match.get("model") for match in matches if isinstance(match, dict)]
    return [name for _, name, _ in _pairs(tree.value, "splits")] + [one for one in ruled if isinstance(one, str)]


def _addresses_twice(tree: Tree, at: Path, cluster: dict[str, Any]) -> Iterator[Fault]:
    first: dict[tuple[str, int], Path] = {}
    for place, endpoint in _items(cluster, "endpoints", at):
        address = endpoint.get("address") if isinstance(endpoint, dict) else None
        try:
            parts = split_address(address) if isinstance(address, str) else None
        except ValueError:
            continue
        if parts is None:
            continue
        path = (*place, "address")
        if parts in first:
            line = tree.line(first[parts])
            yield tree.fault(path, f"{address!r} is in this cluster already (line {line})")
        first.setdefault(parts, path)


def _unknown_in_routes(tree: Tree, names: list[str]) -> Iterator[Fault]:
    for path, route in _items(tree.value, "routes"):
        cluster = route.get("cluster") if isinstance(route, dict) else None
        if isinstance(cluster, str) and cluster not in names:
            yield tree.fault((*path, "cluster"), f"there is no cluster {cluster!r}{nearest(cluster, names)}")


def _classes_twice(tree: Tree) -> Iterator[Fault]:
    first: dict[str, Path] = {}
    for path, one in _items(tree.value, "classes"):
        name = one.get("name") if isinstance(one, dict) else None
        if isinstance(name, str) and name in first:
            line = tree.line((*first[name], "name"))
            yield tree.fault((*path, "name"), f"{name!r} is the name of {path_text(first[name])} too (line {line})")
        elif isinstance(name, str):
            first[name] = path


def _headers_twice(tree: Tree, key: str) -> Iterator[Fault]:
    for path, rule in _items(tree.value, key):
        seen: set[str] = set()
        match = rule.get("match") if isinstance(rule, dict) else None
        for place, name, _ in _pairs(match, "header", (*path, "match")):
            if name.lower() in seen:
                yield tree.fault(place, "the header is given twice; the case of its name does not matter")
            seen.add(name.lower())


def _split_faults(tree: Tree, names: list[str]) -> Iterator[Fault]:
    aliases = {name: target for _, name, target in _pairs(tree.value, "aliases")}
    for path, model, split in _pairs(tree.value, "splits"):
        if model in aliases:
            yield tree.fault(path, f"{model!r} is an alias; split {aliases[model]!r}, which it stands for")
        if not isinstance(split, dict):
            continue
        long = isinstance(split.get("parts"), dict)
        place, parts = ((*path, "parts"), split["parts"]) if long else (path, split)
        yield from _unknown_in(tree, place, parts, names)
        if long:
            yield from _unknown_canaries(tree, path, split, parts)
        shares = list(parts.values())
        counted = all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in shares)
        if counted and sum(shares) != PERMILLE:
            yield tree.fault(place, f"its parts sum to {sum(shares)}; they have to sum to {PERMILLE}")


def _unknown_in(tree: Tree, path: Path, parts: dict[str, Any], names: list[str]) -> Iterator[Fault]:
    for cluster in parts:
        if cluster not in names:
            yield tree.fault((*path, cluster), f"there is no cluster {cluster!r}{nearest(cluster, names)}")


def _unknown_canaries(tree: Tree, path: Path, split: dict[str, Any], parts: dict[str, Any]) -> Iterator[Fault]:
    canary = split.get("canary")
    for name in canary if isinstance(canary, list) else [canary]:
        if isinstance(name, str) and name not in parts:
            yield tree.fault((*path, "canary"), f"{name!r} is none of the parts{nearest(name, parts)}")


def _shadow_faults(tree: Tree, clusters: list[tuple[Path, dict[str, Any]]], names: list[str]) -> Iterator[Fault]:
    known = list(dict.fromkeys([*_own_names(clusters), *_names_elsewhere(tree)]))
    homes = {
        model: str(one.get("name")) for _, one in clusters for _, model in _items(one, "models") if _is_text(model)
    }
    for path, model, parts in _pairs(tree.value, "shadows"):
        if model not in known:
            yield tree.fault(path, f"nothing has the model {model!r}{nearest(model, known)}")
        if not isinstance(parts, dict):
            continue
        yield from _unknown_in(tree, path, parts, names)
        if homes.get(model) in parts:
            yield tree.fault(
                (*path, homes[model]), f"{homes[model]!r} serves {model!r} itself; a shadow is another cluster"
            )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _slos_of_nothing(tree: Tree, clusters: list[tuple[Path, dict[str, Any]]]) -> Iterator[Fault]:
    """Requests are counted under the name that an alias stands for."""
    known = [*_own_names(clusters), *_names_elsewhere(tree)]
    aliases = {name: target for _, name, target in _pairs(tree.value, "aliases")}
    for path, name, _ in _pairs(tree.value, "slos"):
        if name in aliases:
            yield tree.fault(path, f"{name!r} is an alias; write the model that it stands for")
        elif name not in known:
            yield tree.fault(path, f"nothing has the model {name!r}{nearest(name, known)}")


def _default_without_cluster(tree: Tree, clusters: list[tuple[Path, dict[str, Any]]]) -> Iterator[Fault]:
    model = tree.value.get("default_model")
    known = [*_own_names(clusters), *_names_elsewhere(tree), *(name for _, name, _ in _pairs(tree.value, "aliases"))]
    if isinstance(model, str) and model not in known:
        yield tree.fault(("default_model",), f"nothing has the model {model!r}{nearest(model, known)}")

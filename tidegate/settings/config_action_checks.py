"""What is wrong with `actions` only beside the rest of the file: names given twice, targets that nothing has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.domain.actions.rules import LABEL_MARK
from tidegate.domain.routing import PERMILLE
from tidegate.settings.config_sentences import nearest
from tidegate.settings.config_tree import Fault, Path, Tree

CLUSTERED = ("scale", "drain", "reduce", "retries", "hold")


def action_faults(tree: Tree, clusters: Sequence[str], models: Sequence[str]) -> Iterator[Fault]:
    """Faults of `actions`, where `clusters` and `models` are the names that the file has."""
    actions = tree.value.get("actions")
    rules = actions.get("rules") if isinstance(actions, dict) else None
    seen: dict[str, Path] = {}
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(rule, dict):
            path: Path = ("actions", "rules", index)
            yield from _name_twice(tree, path, rule, seen)
            yield from _unknown_targets(tree, path, rule, clusters, models)
            yield from _split_faults(tree, path, rule.get("split"), clusters)


def _name_twice(tree: Tree, path: Path, rule: dict[str, Any], seen: dict[str, Path]) -> Iterator[Fault]:
    name = rule.get("name")
    if isinstance(name, str) and name in seen:
        yield tree.fault((*path, "name"), f"{name!r} is the name of another rule (line {tree.line(seen[name])})")
    elif isinstance(name, str):
        seen[name] = (*path, "name")


def _unknown_targets(
    tree: Tree, path: Path, rule: dict[str, Any], clusters: Sequence[str], models: Sequence[str]
) -> Iterator[Fault]:
    for kind in CLUSTERED:
        yield from _unknown(tree, (*path, kind, "cluster"), _of(rule, kind, "cluster"), "cluster", clusters)
    for kind in ("hold", "split"):
        yield from _unknown(tree, (*path, kind, "model"), _of(rule, kind, "model"), "model", models)
    classes = [one.get("name") for one in _list(tree.value.get("classes")) if isinstance(one, dict)]
    held = _of(rule, "hold", "classes")
    for index, name in enumerate([held] if isinstance(held, str) else _list(held)):
        place = ("classes",) if isinstance(held, str) else ("classes", index)
        known = [*(one for one in classes if isinstance(one, str)), "default"]
        yield from _unknown(tree, (*path, "hold", *place), name, "class", known)


def _unknown(tree: Tree, path: Path, name: Any, what: str, known: Sequence[str]) -> Iterator[Fault]:
    if isinstance(name, str) and not name.startswith(LABEL_MARK) and name not in known:
        yield tree.fault(path, f"there is no {what} {name!r}{nearest(name, known)}")


def _split_faults(tree: Tree, path: Path, split: Any, clusters: Sequence[str]) -> Iterator[Fault]:
    parts = split.get("parts") if isinstance(split, dict) else None
    if not isinstance(parts, dict):
        return
    for cluster in parts:
        yield from _unknown(tree, (*path, "split", "parts", cluster), cluster, "cluster", clusters)
    shares = list(parts.values())
    counted = all(isinstance(one, int) and not isinstance(one, bool) for one in shares)
    if counted and sum(shares) != PERMILLE:
        yield tree.fault((*path, "split", "parts"), f"its parts sum to {sum(shares)}; they have to sum to {PERMILLE}")


def _of(rule: dict[str, Any], kind: str, name: str) -> Any:
    section = rule.get(kind)
    return section.get(name) if isinstance(section, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

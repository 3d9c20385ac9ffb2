"""The page itself, Markdown: the prose, then one table for what several services have and one a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ext_proc.workers_sums import rule
from tidegate.cli.metrics.families import Family
from tidegate.cli.metrics.labels import bound_of, unbounded
from tidegate.cli.metrics.prose import HEAD
from tidegate.cli.metrics.registries import Found
from tidegate.domain.errors import TidegateError

UNITS: Final[Mapping[str, str]] = {
    "seconds": "seconds",
    "bytes": "bytes",
    "tokens": "tokens",
    "ratio": "0…1",
    "permille": "0…1000",
}
"""By the last word of a name. Anything else is a number of what its name says, or 1 for yes and 0 for no."""
UNBOUNDED_RATIOS: Final = frozenset({"tidegate_outcomes_slo_burn_ratio"})
ENGINE_PAGES: Final = "engine-sim --kind"
WORKED: Final = "ext-proc"
TITLES: Final[Mapping[str, str]] = {
    "xds": "tidegate xds, with its controller",
    "ext-proc": "tidegate ext-proc",
    "ext-proc --workers": "tidegate ext-proc --workers N: the parent alone",
    "outcomes": "tidegate outcomes",
    "agent": "tidegate agent",
    "engine-sim": "tidegate engine-sim: the process",
    "engine-sim --kind llm": "tidegate engine-sim --kind llm: the engine, by vLLM's names",
    "engine-sim --kind diffusion": "tidegate engine-sim --kind diffusion: the engine, by vLLM-Omni's names",
}


def metrics_page(found: Found) -> str:
    """The whole page. Raises TidegateError for a label that nothing bounds."""
    shared = _shared(found)
    parts = [HEAD, _labels(found), "## In several services\n", _shared_table(shared)]
    for service, families in found.items():
        own = [family for name, family in families.items() if name not in shared]
        if own:
            parts += [f"## {TITLES[service]}\n", _table(own, worked=service == WORKED)]
    return "\n".join(parts)


def unit_of(name: str) -> str:
    """In words; empty for a plain number."""
    if name in UNBOUNDED_RATIOS:
        return "ratio"
    return UNITS.get(name.removesuffix("_total").rpartition("_")[2], "")


def _shared(found: Found) -> dict[str, tuple[Family, list[str]]]:
    """What more than one service has, and which."""
    shared: dict[str, tuple[Family, list[str]]] = {}
    for service, families in found.items():
        if not service.startswith(ENGINE_PAGES):
            for name, family in families.items():
                shared.setdefault(name, (family, []))[1].append(service)
    return {name: (family, services) for name, (family, services) in shared.items() if len(services) > 1}


def _shared_table(shared: Mapping[str, tuple[Family, list[str]]]) -> str:
    rows = [(*_cells(family), ", ".join(services)) for family, services in shared.values()]
    return _rows(("name", "type", "unit", "labels", "meaning", "services"), rows)


def _table(families: Iterable[Family], *, worked: bool) -> str:
    columns = ("name", "type", "unit", "labels", "meaning")
    if worked:
        return _rows((*columns, "workers"), [(*_cells(one), rule(_base(one), one.kind)) for one in families])
    return _rows(columns, map(_cells, families))


def _base(family: Family) -> str:
    """The family's name as workers tell it: without what its type adds."""
    return family.name.removesuffix("_total") if family.kind == "counter" else family.name


def _cells(family: Family) -> tuple[str, ...]:
    labels = " ".join(f"`{label}`" for label in family.labels)
    return f"`{family.name}`", family.kind, unit_of(family.name), labels, family.meaning.replace("|", "\\|")


def _labels(found: Found) -> str:
    ours = {
        label
        for service, families in found.items()
        if not service.startswith(ENGINE_PAGES)
        for family in families.values()
        for label in family.labels
    }
    if missing := unbounded(ours):
        raise TidegateError(f"say in tidegate/cli/metrics/labels.py what these labels may hold: {', '.join(missing)}")
    return _rows(("label", "at most"), [(f"`{label}`", bound_of(label)) for label in sorted(ours)])


def _rows(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"

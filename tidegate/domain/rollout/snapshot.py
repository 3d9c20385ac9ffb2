"""A split at a moment: of each version the share that is set, and what became of the last minute's requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.routing import PERMILLE
from tidegate.domain.split import Parts

SHOWN: Final = ("cluster", "share_permille", "seen_permille", "requests", "error_rate", "p95_ms")
"""What `tidegate split show --json` tells of a version, neither more nor less."""


def versions_seen(parts: Parts, seen: Mapping[str, Figures] | None) -> list[dict[str, Any]]:
    """One row a version: `cluster share_permille seen_permille requests error_rate p95_ms` and counts by ending.

    `seen` are the last minute's figures of this model by cluster; None: nobody tells any, so that all is unknown.
    Error rates are 0…1 of what engines answered, p95 is from first byte in to last byte out, of served requests.
    """
    figures = {name: (seen or {}).get(name, Figures()) for name, _ in parts}
    total = sum(one.requests for one in figures.values())
    return [_row(name, share, figures[name], total, known=seen is not None) for name, share in parts]


def _row(name: str, share: int, figures: Figures, total: int, *, known: bool) -> dict[str, Any]:
    p95 = figures.quantile_ms(0.95)
    return {
        "cluster": name,
        "share_permille": share,
        "seen_permille": round(figures.requests / total * PERMILLE, 1) if total else None,
        "requests": figures.requests if known else None,
        "error_rate": figures.error_ratio,
        "p95_ms": None if p95 is None else round(p95, 3),
        "faults": figures.count(Ending.FAULT) if known else None,
        "client_errors": figures.count(Ending.CLIENT_ERROR) if known else None,
        "back_pressure": figures.count(Ending.BACK_PRESSURE) if known else None,
        "left": figures.count(Ending.LEFT) if known else None,
    }

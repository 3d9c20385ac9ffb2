"""What `tidegate status` says of how requests ended: values for `--json`, and lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.domain.outcomes.ending import ENDINGS
from tidegate.domain.outcomes.report import Seen
from tidegate.domain.outcomes.sketch import Sketch
from tidegate.domain.outcomes.slo import Slo, Spans, burn_rate, burns
from tidegate.domain.outcomes.tally import QUANTILES


def seen_values(seen: Seen | None) -> dict[str, Any] | None:
    """The last minute of a cluster or a replica: counts by ending, rates, quantiles in milliseconds."""
    if seen is None or not any(seen.tally.counts):
        return None
    return {
        **{ending.value: seen.tally.count(ending) for ending in ENDINGS},
        "requests_per_second": round(seen.per_second, 3),
        "error_rate": seen.error_ratio,
        "retries": seen.tally.retries,
        "ttfb_ms": _quantiles(seen.tally.ttfb),
        "total_ms": _quantiles(seen.tally.total),
    }


def slo_values(slos: Iterable[Slo], spans: Mapping[str, Spans]) -> list[dict[str, Any]]:
    """Each objective with its target, how fast its budget burns over 5 minutes and 1 hour, and whether that is fast."""
    found = []
    for slo in slos:
        span = spans.get(slo.model, Spans())
        for objective in slo.objectives:
            short, long = (burn_rate(slo, objective, counts) for counts in (span.short, span.long))
            told = {"target": getattr(slo, objective), "burn_5m": short, "burn_1h": long, "burns": burns(short, long)}
            found.append({"model": slo.model, "objective": objective, **told})
    return found


def seen_line(outcomes: Mapping[str, Any]) -> str:
    """`12.3 requests/s, 0.4 % faults, p95 840 ms, of the first byte 92 ms`."""
    parts = [f"{outcomes['requests_per_second']:.1f} requests/s"]
    if outcomes["error_rate"] is not None:
        parts.append(f"{outcomes['error_rate']:.1%} faults")
    counts = (("back_pressure", "told to wait by an engine"), ("client_error", "client errors"), ("left", "left"))
    parts += [f"{outcomes[name]} {words}" for name, words in counts if outcomes[name]]
    if (p95 := outcomes["total_ms"]["p95"]) is not None:
        parts.append(f"p95 {p95:,.0f} ms, of the first byte {outcomes['ttfb_ms']['p95'] or 0:,.0f} ms")
    return ", ".join(parts)


def slo_line(one: Mapping[str, Any]) -> str:
    """`phi-3: error_rate 0.01: burns 3.1 over 5 min, 1.2 over 1 h`; burn 1 spends exactly the budget."""
    if one["burn_1h"] is None:
        return f"{one['model']}: {one['objective']} {one['target']:g}: no requests"
    short = "-" if one["burn_5m"] is None else f"{one['burn_5m']:.2g}"
    return (
        f"{one['model']}: {one['objective']} {one['target']:g}: burn {short} over 5 min, {one['burn_1h']:.2g} over 1 h"
    )


def _quantiles(sketch: Sketch) -> dict[str, float | None]:
    return {f"p{round(100 * part)}": sketch.quantile_ms(part) for part in QUANTILES}

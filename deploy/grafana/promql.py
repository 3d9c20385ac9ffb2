"""The few forms of PromQL that panels ask in."""

from __future__ import annotations

from deploy.grafana.board import Query

STEP = "$__rate_interval"


def rate(counter: str, by: str, where: str = "") -> str:
    """A counter's increase a second, summed over all but the labels `by`."""
    return f"sum by ({by}) (rate({counter}{{{where}}}[{STEP}]))"


def summed(gauge: str, by: str, where: str = "") -> str:
    """A gauge, summed over all but the labels `by`."""
    return f"sum by ({by}) ({gauge}{{{where}}})"


def largest(gauge: str, by: str, where: str = "") -> str:
    """A gauge that several instances tell: the largest of each `by`."""
    return f"max by ({by}) ({gauge}{{{where}}})"


def quantile(part: float, histogram: str, by: str = "", where: str = "") -> str:
    """A histogram's quantile, of each `by`."""
    return f"histogram_quantile({part}, {rate(f'{histogram}_bucket', f'{by}, le' if by else 'le', where)})"


def quantiles(histogram: str, by: str = "", where: str = "") -> tuple[Query, ...]:
    """p50, p95 and p99 of a histogram."""
    name = f"{{{{{by}}}}} " if by else ""
    return tuple(Query(quantile(part, histogram, by, where), f"{name}p{part * 100:.0f}") for part in (0.5, 0.95, 0.99))


def ratio(part: str, whole: str) -> str:
    """One expression by another; no series where the whole is none."""
    return f"{part} / {whole}"


def of_the_minute(metric: str, where: str) -> tuple[Query, ...]:
    """p50, p95 and p99 of the last minute as outcomes tells them, by cluster; of several instances the largest."""
    return tuple(
        Query(
            largest(metric, "cluster", f'{where},replica="all",quantile="{part}"'), f"{{{{cluster}}}} p{part * 100:.0f}"
        )
        for part in (0.5, 0.95, 0.99)
    )


def or_none(expr: str, label: str) -> str:
    """The expression, or one series of 0 where it has none: of what is counted by words that may never be said."""
    return f'{expr} or on() label_replace(vector(0), "{label}", "none", "", "")'

"""What `tidegate top` draws, from reports and what earlier reports said. 80 columns are enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from tidegate.cli.look import age, bar, level, short_count, sparkline

KEPT: Final = 60
"""Looks that are remembered: as wide as a sparkline gets."""
RATE_LOOKS: Final = 5
"""Looks over which requests a second are counted."""
LEAST_WIDTH: Final = 80
LEGEND: Final = "l/m/x: the load's latency, memory and request mix   p pinned  d drained  ! closed  ? unseen"


class History:
    """Loads and request counters of the last looks, by cluster and address."""

    def __init__(self) -> None:
        self._loads: dict[tuple[str, str], deque[float | None]] = {}
        self._counts: dict[tuple[str, str], deque[tuple[int, int]]] = {}

    def add(self, report: Mapping[str, Any]) -> None:
        """Remember one report."""
        for cluster in report["clusters"]:
            for e in cluster["endpoints"]:
                place = (cluster["name"], e["address"])
                self._loads.setdefault(place, deque(maxlen=KEPT)).append(e["load"]["total"])
                at, count = e["sampled_at_ms"], e["prompts_total"]
                if at is not None and count is not None:
                    self._count(place, at, count)

    def _count(self, place: tuple[str, str], at_ms: int, count: int) -> None:
        seen = self._counts.setdefault(place, deque(maxlen=RATE_LOOKS + 1))
        if seen and count < seen[-1][1]:  # the engine began anew
            seen.clear()
        if not seen or at_ms > seen[-1][0]:
            seen.append((at_ms, count))

    def loads(self, cluster: str, address: str) -> Iterable[float | None]:
        """Load totals, oldest first."""
        return self._loads.get((cluster, address), ())

    def rate(self, cluster: str, endpoint: Mapping[str, Any]) -> float | None:
        """Requests a second whose first token came, over the last looks; None while unknown."""
        seen = self._counts.get((cluster, endpoint["address"]))
        if seen is None or len(seen) < 2:
            return None
        (first_ms, first), (last_ms, last) = seen[0], seen[-1]
        return (last - first) * 1000 / (last_ms - first_ms)


def screen(
    report: Mapping[str, Any], history: History, where: str, width: int, *, height: int | None = None
) -> RenderableType:
    """The whole picture, no line of it wider than `width` nor, with `height`, more lines than that."""
    wide = max(LEAST_WIDTH, width)
    lines = [_title(report, where), *_warnings(report), Text("")]
    for cluster in report["clusters"]:
        lines += [_cluster_line(cluster, report, history), *_rows(cluster, history, wide)]
    lines = [_fitted(line, width) for line in lines]
    lines.append(_fitted(Text(LEGEND, style="dim"), width))
    if height is not None and len(lines) > height:
        hidden = len(lines) - height + 1
        lines = [*lines[: height - 1], Text(f"… {hidden} more lines: name a cluster, or make the window higher", "dim")]
    return Group(*lines)


def _fitted(line: Text, width: int) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    line.truncate(width, overflow="ellipsis")
    return line


def _title(report: Mapping[str, Any], where: str) -> Text:
    text = Text.assemble(("tidegate top", "bold"), f"  redis {where}")
    if report["leader"]:
        text.append(f"  leader {report['leader']}")
    text.append("  q quits", style="dim")
    return text


def _warnings(report: Mapping[str, Any]) -> list[Text]:
    """What an operator should know before the numbers."""
    lines = []
    if report["redis"]["error"]:
        lines.append(Text(report["redis"]["error"], style="red"))
    elif absent := [name for name, found in report["services"].items() if not found]:
        lines.append(Text(f"absent: {', '.join(absent)}", style="red"))
    if rejected := report["rejected"]:
        key, why = next(iter(rejected.items()))
        more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
        lines.append(Text(f"rejected: {key}: {why}{more}", style="yellow"))
    return lines


def _cluster_line(cluster: Mapping[str, Any], report: Mapping[str, Any], history: History) -> Text:
    rates = [history.rate(cluster["name"], e) for e in cluster["endpoints"]]
    known = [rate for rate in rates if rate is not None]
    text = Text.assemble((cluster["name"], "bold cyan"), f"  {cluster['lb'] or 'not in the file'}")
    text.append(f"  {len(cluster['endpoints'])} replicas")
    if known:
        text.append(f"  {short_count(sum(known))} requests/s")
    queue = report["queues"].get(cluster["name"])
    if queue and queue["waiting"]:
        waited = f", oldest {age(queue['oldest_ms'])}" if queue["oldest_ms"] is not None else ""
        text.append(f"  {queue['waiting']} wait in the gateway{waited}", style="yellow")
    return text


def _rows(cluster: Mapping[str, Any], history: History, width: int) -> list[Text]:
    if not cluster["endpoints"]:
        return [Text("  no replica", style="red")]
    spare = width - LEAST_WIDTH
    name, spark = 18 + spare - spare // 2, 7 + spare // 2
    head = f"{'replica':<{name}} {'weight':>9}   run wait {'KV':>8} l/m/x {'load':<{spark + 5}} req/s   age"
    return [Text(head, style="dim"), *(_row(cluster["name"], e, history, name, spark) for e in cluster["endpoints"])]


def _row(cluster: str, e: Mapping[str, Any], history: History, name: int, spark: int) -> Text:
    """replica, weight bar and number, running, waiting, KV bar, the load's parts, its course, requests/s, age."""
    load, weight = e["load"], e["weight"]
    kv = "   -" if e["kv_used_ratio"] is None else f"{e['kv_used_ratio']:4.0%}"
    text = Text(f"{_clipped(e['address'], name)} ", style=_colour(e))
    text.append(f"{bar((weight or 0) / 1000, 5)}{_text(weight):>4}", style="cyan")
    text.append(f"{_mark(e)} {_text(e['running']):>4} {_text(e['waiting']):>4} ")
    text.append(f"{bar(e['kv_used_ratio'], 4)}{kv} ", style="magenta")
    text.append(f"{level(load['latency'])}{level(load['vram'])}{level(load['entropy'])}   ")
    text.append("   -" if load["total"] is None else f"{load['total']:.2f}")
    text.append(f" {sparkline(history.loads(cluster, e['address']), spark)}", style="green")
    text.append(f" {short_count(history.rate(cluster, e)):>5} {age(e['age_ms']):>5}")
    return text


def _mark(e: Mapping[str, Any]) -> str:
    """One cell that says who decided: p pinned, d drained, ! a state that serves nobody, ? not seen."""
    if e["drained"] is not None:
        return "d"
    if e["status"] not in {"ready", "idle", "unknown"}:
        return "!"
    if e["pinned"]:
        return "p"
    return "?" if e["stale"] or e["status"] == "unknown" else " "


def _colour(e: Mapping[str, Any]) -> str:
    return {"d": "yellow", "!": "red", "?": "dim", "p": "bold", " ": ""}[_mark(e)]


def _clipped(address: str, width: int) -> str:
    """The address in `width` cells; of a long one the end, which has the port."""
    return address.ljust(width) if len(address) <= width else "…" + address[-(width - 1) :]


def _text(value: object) -> str:
    return "-" if value is None else str(value)

"""How the command line draws: consoles, tables, bars, sparklines and ages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

PIPED_WIDTH: Final = 200
"""Piped output is for grep, not for a screen."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LEVELS: Final = "▁▂▃▄▅▆▇█"


def new_console() -> Console:
    """A console on standard output."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def new_table(*columns: str) -> Table:
    """A table with a rule below its head. A column that begins with `>` is aligned to the right."""
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column[:1] == ">" else "left", no_wrap=True)
    return table


def bar(ratio: float | None, width: int) -> str:
    """`ratio` (clipped to [0, 1]) as a bar of `width` cells, in eighths; blank when unknown, a sliver above 0."""
    eighths = round(min(1.0, max(0.0, ratio or 0.0)) * width * 8)
    if ratio is not None and ratio > 0 and not eighths:
        eighths = 1
    full, rest = divmod(eighths, 8)
    return (_EIGHTHS[8] * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def level(ratio: float | None) -> str:
    """`ratio` in [0, 1] as one cell of eight heights; `·` when unknown."""
    return "·" if ratio is None else _LEVELS[min(7, int(min(1.0, max(0.0, ratio)) * 8))]


def sparkline(ratios: Iterable[float | None], width: int) -> str:
    """The newest `width` ratios, oldest first."""
    return "".join(level(ratio) for ratio in list(ratios)[-width:]).rjust(width)


def age(ms: float | None) -> str:
    """0.3s, 12s, 3m, 2h, 9d, in at most five cells for 270 years; `-` when unknown."""
    if ms is None:
        return "-"
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 120:
        return f"{seconds:.0f}s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 172_800 else f"{seconds / 86_400:.0f}d"


def short_count(value: float | None) -> str:
    """A number in at most five cells: 7, 3.2, 850, 12k, 3.4M; `-` when unknown."""
    if value is None:
        return "-"
    if value < 100 and value != int(value):
        return f"{value:.1f}"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            scaled = value / {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"

"""What a dashboard is made of, apart from how Grafana writes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Look(StrEnum):
    """How a panel shows its series."""

    LINES = "lines"
    STACK = "stack"
    STAT = "stat"


class Unit(StrEnum):
    """Grafana's names of the units in use."""

    COUNT = "short"
    RATIO = "percentunit"
    PERMILLE = "suffix:‰"
    SECONDS = "s"
    BYTES = "bytes"
    REQUESTS_PER_SECOND = "reqps"
    PER_SECOND = "cps"
    FLAG = "bool_yes_no"
    MOMENT = "dateTimeFromNow"
    TIMES = "suffix:×"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and what its series are called: `{{cluster}}` is the value of a label."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, 8 of 24 columns wide unless told otherwise. `help` says what it shows and what is good.

    `warn` and `bad` are the values from which it is coloured, None where no value is bad. `zero` stands in
    place of 0.
    """

    title: str
    unit: Unit
    help: str
    queries: tuple[Query, ...]
    look: Look = Look.LINES
    width: int = 8
    height: int = 8
    warn: float | None = None
    bad: float | None = None
    zero: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels under it, left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable at the top of a dashboard: the values of label `name` of `metric`; all of them unless chosen.

    `everything` is the regular expression of all, None where it is those values alone.
    """

    name: str
    metric: str
    everything: str | None = ".*"


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. `uid` is its place in Grafana's addresses and the name of its file."""

    uid: str
    title: str
    help: str
    choices: tuple[Choice, ...]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Every panel, from the top."""
        return tuple(panel for row in self.rows for panel in row.panels)

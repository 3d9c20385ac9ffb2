"""All contenders side by side, loaded by turns: `python -m bench --only rivals`, or this module for more say.

Every contender runs from the beginning to the end, so that a noisy machine and the idle costs of the others are the
same for all. A round loads each once at one point; a figure is the median of its rounds. Processor time is what the
processes spent by /proc while the load ran, over the requests that were answered.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.body import chat_body
from bench.driver import measure as load_once
from bench.load import Generator, generator
from bench.rivals.contenders import CONTENDERS, Contender
from bench.rivals.install import NotInstalled
from bench.rows import Row
from bench.scenario import Target
from bench.upstream import upstream

ENGINES: Final = 4
PROMPTS: Final = {2 << 10: 256, 220 << 10: 32}
"""Different prompts of each size, sent in turn."""
SMALL, LARGE = PROMPTS
POINTS: Final = ((1, SMALL), (16, SMALL), (64, SMALL), (256, SMALL), (1, LARGE), (16, LARGE))
"""(connections, bytes of the body)."""
QUICK_POINTS: Final = ((1, SMALL), (16, SMALL))
PARTS: Final = ("envoy", "ext_proc", "router")
"""Whose CPU is shown by name; what else Tidegate runs counts as `beside`, and engines as nobody's."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured: seconds of load for each contender, point and round."""

    points: Sequence[tuple[int, int]] = POINTS
    rounds: int = 3
    seconds: float = 3.0


QUICK: Final = Plan(points=QUICK_POINTS, rounds=1, seconds=2.0)


def measure(plan: Plan, say: Say, contenders: Sequence[Contender] = CONTENDERS) -> list[Row]:
    """One row a contender and point. What does not install is told and left out; RuntimeError: something fails."""
    with tempfile.TemporaryDirectory(prefix="tidegate-rivals-") as name:
        folder = Path(name)
        bodies = {size: write_prompts(folder / str(size), size) for size in {size for _, size in plan.points}}
        (engines := folder / "engines").mkdir()
        with (
            upstream(engines, ENGINES, whole_bodies=True) as there,
            ExitStack() as stack,
        ):
            targets: dict[str, Target] = {}
            for number, contender in enumerate(contenders):
                say(f"starting {contender.name}")
                (own := folder / f"contender{number}").mkdir()
                try:
                    targets[contender.name] = stack.enter_context(contender.target(there, own))
                except NotInstalled as exc:
                    say(str(exc))
            return _rounds(plan, targets, bodies, generator(), say)


def _rounds(
    plan: Plan, targets: Mapping[str, Target], bodies: Mapping[int, Path], load: Generator, say: Say
) -> list[Row]:
    rows: dict[tuple[str, int, int], list[Row]] = {}
    for connections, size in plan.points:
        for number in range(plan.rounds):
            for name, target in targets.items():
                say(f"{name}: {connections} × {size >> 10} KiB, round {number + 1} of {plan.rounds}")
                row = load_once(
                    name,
                    target,
                    load,
                    body=bodies[size],
                    connections=connections,
                    seconds=plan.seconds,
                    body_bytes=size,
                    warm_up=number == 0,
                )
                rows.setdefault((name, connections, size), []).append(row)
    return [median_of(several) for several in rows.values()]


def median_of(rows: Sequence[Row]) -> Row:
    """One row of several rounds: the median of each figure, requests and errors added up, CPU by its part."""
    first = rows[0]
    parts = {part: median(_part(row.cpu_us, part) for row in rows) for part in _parts_of(first.cpu_us)}
    return Row(
        name=first.name,
        connections=first.connections,
        body_bytes=first.body_bytes,
        rps=round(median(row.rps for row in rows), 1),
        p50_ms=round(median(row.p50_ms for row in rows), 3),
        p99_ms=round(median(row.p99_ms for row in rows), 3),
        cpu_us={part: round(value, 1) for part, value in parts.items()},
        requests=sum(row.requests for row in rows),
        errors=sum(row.errors for row in rows),
    )


def _parts_of(cpu_us: Mapping[str, float]) -> list[str]:
    known = [part for part in PARTS if part in cpu_us]
    return [*known, *(["beside"] if set(cpu_us) - {*PARTS, "upstream"} else [])]


def _part(cpu_us: Mapping[str, float], part: str) -> float:
    if part != "beside":
        return cpu_us[part]
    return sum(spent for name, spent in cpu_us.items() if name not in {*PARTS, "upstream"})


def write_prompts(folder: Path, size: int) -> Path:
    """So many files of `size` bytes with different prompts; the folder that holds them."""
    folder.mkdir()
    for number in range(PROMPTS[size]):
        (folder / f"{number:04}.json").write_bytes(chat_body(size, start=f"Prompt {number:04}: "))
    return folder

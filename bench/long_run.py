"""Millions of requests through a real Envoy and ext_proc: `python -m bench.long_run --requests 2000000`.

Says at each tenth how fast it went, and what Envoy and ext_proc hold: resident memory, descriptors. At the end
ext_proc's own counts are compared with the client's: where the machine starves it, Envoy routes by the model itself,
and such requests are a fault here. Exit status 1: a request failed, did not pass ext_proc, or memory grew. A short form
is `--requests 20000`. h2load (Debian: nghttp2-client) sends the requests where it is installed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from bench.body import chat_body
from bench.load import generator
from bench.processes import resident_mib
from bench.scenario import Target
from bench.scenarios.tidegate_pick import TidegatePick
from bench.upstream import upstream

STEPS: Final = 10
CONNECTIONS: Final = 16
BODY_BYTES: Final = 2048
WATCHED: Final = ("ext_proc", "envoy")
WARM_STEPS: Final = 2
"""Caches fill and tables reach their bounds in the first steps; memory is compared from here on."""
MOST_GROWTH: Final = 0.05
MOST_GROWTH_MIB: Final = 4.0
"""Below this a growth is the allocator's, whatever part of the whole it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """A tenth of the run: its requests, and what was held after it."""

    done: int
    failed: int
    seconds: float
    resident_mib: Mapping[str, float]
    descriptors: Mapping[str, int]


def measure(requests: int, progress: Progress | None = None) -> tuple[list[Step], Counts]:
    """Send so many requests, in tenths; what each did, and what ext_proc counted."""
    task = progress.add_task("requests", total=requests) if progress else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = folder / "body.json"
        body.write_bytes(chat_body(BODY_BYTES))
        with upstream(folder) as engines, TidegatePick().target(engines, folder) as target:
            page = json.loads((folder / "ready.json").read_text())["metrics"]["ext_proc"]
            steps, before = [], counts(page)
            for size in _sizes(requests):
                steps.append(_step(target, body, size))
                if progress is not None and task is not None:
                    progress.update(task, advance=steps[-1].done)
                    progress.console.print(told(steps[-1]))
            return steps, counts(page).since(before)


def _sizes(requests: int) -> list[int]:
    each = requests // STEPS
    return [each] * (STEPS - 1) + [requests - each * (STEPS - 1)]


def _step(target: Target, body: Path, size: int) -> Step:
    began = time.perf_counter()
    done, failed = _by_h2load(target.url, body, size) if shutil.which("h2load") else _by_ours(target.url, body, size)
    seconds = time.perf_counter() - began
    pids = {name: target.pids[name] for name in WATCHED}
    resident = {name: sum(map(resident_mib, of_it)) for name, of_it in pids.items()}
    return Step(done, failed, seconds, resident, {name: sum(map(descriptors, of_it)) for name, of_it in pids.items()})


def _by_h2load(url: str, body: Path, size: int) -> tuple[int, int]:
    """Requests sent and those without a 2xx answer."""
    command = ["h2load", "--h1", "-n", str(size), "-c", str(CONNECTIONS), "-d", str(body)]
    done = subprocess.run(
        [*command, "-H", "content-type: application/json", url], capture_output=True, text=True, check=True
    )
    right = re.search(r"^status codes: (\d+) 2xx", done.stdout, re.MULTILINE)
    if right is None:
        raise RuntimeError(f"h2load said nothing of its requests:\n{done.stdout}{done.stderr}")
    return size, size - int(right[1])


def _by_ours(url: str, body: Path, size: int) -> tuple[int, int]:
    done = failed = 0
    load = generator()
    while done < size:
        result = load.run(url, body, CONNECTIONS, seconds=2.0)
        done, failed = done + result.requests, failed + result.errors
    return done, failed


@dataclass(frozen=True, slots=True)
class Counts:
    """What ext_proc counted: requests sent on, refused, streams that failed, and those open."""

    decided: float
    refused: float
    failed: float
    open_streams: float

    def since(self, before: Counts) -> Counts:
        """What came after `before`; streams are those open."""
        return Counts(
            self.decided - before.decided, self.refused - before.refused, self.failed - before.failed, self.open_streams
        )


def counts(page: str) -> Counts:
    """Of ext_proc's metrics page."""
    with urllib.request.urlopen(page, timeout=10) as answer:
        text = answer.read().decode()
    names = ("decisions_total", "refusals_total", "failures_total", "open_streams")
    return Counts(*(_sum(text, f"tidegate_ext_proc_{name}") for name in names))


def _sum(page: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}(?:\{{[^\n]*?\}})? (\S+)", page, re.MULTILINE))


def descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def told(step: Step) -> str:
    """A step as a line."""
    held = ", ".join(f"{n} {step.resident_mib[n]:.1f} MiB and {step.descriptors[n]} descriptors" for n in WATCHED)
    return f"{step.done} requests, {step.done / step.seconds:.0f}/s, {step.failed} failed; {held}"


def faults(steps: Sequence[Step], counted: Counts) -> list[str]:
    """Why the run was not as it should be; empty when it was."""
    found = []
    sent, failed = sum(step.done for step in steps), sum(step.failed for step in steps)
    if failed or counted.failed or counted.refused:
        found.append(
            f"{failed} requests failed; ext_proc: {counted.failed:.0f} streams, {counted.refused:.0f} refusals"
        )
    if counted.decided != sent or counted.open_streams:
        found.append(f"{sent} sent, {counted.decided:.0f} by way of ext_proc, {counted.open_streams:.0f} streams open")
    for name in WATCHED:
        warm, last = steps[WARM_STEPS - 1].resident_mib[name], steps[-1].resident_mib[name]
        if last - warm > max(MOST_GROWTH_MIB, warm * MOST_GROWTH):
            found.append(f"{name} grew from {warm:.1f} to {last:.1f} MiB")
        if steps[-1].descriptors[name] > steps[0].descriptors[name]:
            found.append(
                f"{name} holds {steps[-1].descriptors[name]} descriptors, after a tenth {steps[0].descriptors[name]}"
            )
    return found


def main() -> int:
    """Run, report, and exit with 1 when there is a fault."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=20_000)
    options = arguments.parse_args()
    with Progress() as progress:
        steps, counted = measure(options.requests, progress)
    seconds, sent = sum(step.seconds for step in steps), sum(step.done for step in steps)
    found = faults(steps, counted)
    say = Console().print
    say(f"{sent} requests in {seconds:.0f} s, {sent / seconds:.0f}/s; {counted}")
    say("\n".join(found) if found else "no request failed, memory is flat, nothing is left open")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

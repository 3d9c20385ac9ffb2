"""Fuzzes `parse_request`: `python -m tests.fuzz.fuzz_parse --count 1000000 --seed 7`.

A request that raises anything but Refusal, that takes over 50 ms of CPU a MiB (the least of a few tries), or whose
model does not stand where `model_span` says, is a failure: it is printed, added to `corpus/`, and the exit status is 1. Requests
that are read in a way not seen before join the pool; `--keep` adds the first of them to `corpus/`, where every run
starts from.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

from rich.console import Console
from rich.progress import Progress

from ext_proc.parse.request import is_form, parse_request
from ext_proc.parse.span import model_span
from tests.fuzz.costly import costly
from tests.fuzz.mutate import LARGEST_SEED, Request, mutated, seeds
from tidegate.domain.refusal import Refusal
from tidegate.domain.request import RequestInfo

CORPUS = Path(__file__).with_name("corpus") / "parse.jsonl"
LIMIT_BYTES = 2 << 20
COSTLY_BYTES = 1 << 20
SECONDS_PER_MIB = 0.05
RETRIES = 5
SMALL_BYTES = 2048
MOST_FAILURES = 10
SPAN_EVERY = 8
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Findings:
    """What a run has seen."""

    failures: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_seconds_per_mib: float = 0.0
    kept: list[Request] = field(default_factory=list)
    failed: list[Request] = field(default_factory=list)


def run(count: int, seed: int, progress: Progress | None = None, *, timed: bool = True) -> Findings:
    """Parse the costly requests and `count` mutated ones. Equal seeds give equal requests on equal code. `timed`: hold the time budget."""
    choose, pool, seen, findings = random.Random(seed), [*seeds(), *corpus()], set[Hashable](), Findings()
    task = progress.add_task("bodies", total=count) if progress else None
    for request in costly(COSTLY_BYTES) if timed else ():
        _check(request, findings, span=False, timed=True)
    for at in range(count):
        request = mutated(choose, pool)
        signature = _check(request, findings, span=at % SPAN_EVERY == 0, timed=timed)
        if signature not in seen and len(request.body) <= SMALL_BYTES:
            seen.add(signature)
            pool.append(request)
            findings.kept.append(request)
        if progress and task is not None and at % 1000 == 0:
            progress.update(task, completed=at)
    return findings


def parse(request: Request) -> RequestInfo:
    """What the fuzzer calls."""
    return parse_request(
        request.body,
        path=request.path,
        content_type=request.content_type,
        content_encoding=request.content_encoding,
        max_bytes=LIMIT_BYTES,
    )


def _check(request: Request, findings: Findings, *, span: bool, timed: bool) -> Hashable:
    try:
        outcome, seconds = _timed(request)
        if span and isinstance(outcome, RequestInfo):
            _check_span(request, outcome)
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        _fail(request, traceback.format_exc(), findings)
        return None
    if timed:
        _check_time(request, seconds, findings)
    findings.outcomes["read" if isinstance(outcome, RequestInfo) else outcome.reason.value] += 1
    return _signature(outcome)


def _check_time(request: Request, seconds: float, findings: Findings) -> None:
    """An encoded body counts as large as it may become."""
    encoded = request.content_encoding in {"gzip", "zstd"}
    mib = max(1.0, (LIMIT_BYTES if encoded else len(request.body)) / (1 << 20))
    if seconds > SECONDS_PER_MIB * mib:
        seconds = min(_timed(request)[1] for _ in range(RETRIES))
        if seconds > SECONDS_PER_MIB * mib:
            _fail(request, f"{seconds * 1e3:.0f} ms for {len(request.body)} bytes", findings)
    findings.slowest_seconds_per_mib = max(findings.slowest_seconds_per_mib, seconds / mib)


def _timed(request: Request) -> tuple[RequestInfo | Refusal, float]:
    started = process_time()
    try:
        outcome: RequestInfo | Refusal = parse(request)
    except Refusal as refusal:
        outcome = refusal
    return outcome, process_time() - started


def _check_span(request: Request, info: RequestInfo) -> None:
    if request.content_encoding not in {None, "identity"} or info.model_in_path:
        return
    found = model_span(request.body, request.content_type)
    value = "" if found is None else request.body[slice(*found)].decode()
    if value and not is_form(request.content_type):
        value = _LONE_SURROGATE.sub("\ufffd", json.loads(value))
    if (value or None) != info.model:
        raise AssertionError(f"the model is {info.model!r}, and at its place stands {value!r}")


def _signature(outcome: RequestInfo | Refusal) -> Hashable:
    """What tells one way through the parser from another."""
    if isinstance(outcome, Refusal):
        words = outcome.message.split("(byte")[0]
        return outcome.reason, "".join(char for char in words if not char.isdigit())
    present = tuple(bool(getattr(outcome, name)) for name in outcome.__struct_fields__)
    several = (outcome.num_prompts > 1, outcome.num_sequences > 1, outcome.max_output_tokens is None)
    return outcome.api, outcome.kind, present, several, len(outcome.prefix).bit_length(), tuple(outcome.media)


def _fail(request: Request, why: str, findings: Findings) -> None:
    findings.failures.append(
        f"{why}\n{request.path!r} {request.content_type!r} {request.content_encoding!r} {request.body[:300]!r}"
    )
    if len(request.body) <= LARGEST_SEED:
        findings.failed.append(request)


def corpus() -> list[Request]:
    """The requests that earlier runs kept."""
    found = []
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        found.append(Request(base64.b64decode(fields.pop("body")), **fields))
    return found


def keep(request: Request) -> None:
    """Add `request` to the corpus."""
    fields = {"path": request.path, "content_type": request.content_type, "content_encoding": request.content_encoding}
    line = json.dumps({**fields, "body": base64.b64encode(request.body).decode()})
    with CORPUS.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def main() -> int:
    """Run, report, and exit with 1 when there is a failure."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument(
        "--keep", type=int, default=0, metavar="N", help="write the first N kept requests to the corpus"
    )
    options = arguments.parse_args()
    with Progress() as progress:
        findings = run(options.count, options.seed, progress)
    for request in (*findings.kept[: options.keep], *findings.failed[:MOST_FAILURES]):
        keep(request)
    say = Console().print
    say(f"{options.count} bodies, {dict(findings.outcomes)}, {len(findings.kept)} ways through the parser")
    say(f"slowest: {findings.slowest_seconds_per_mib * 1e3:.1f} ms a MiB")
    for failure in findings.failures[:MOST_FAILURES]:
        say(f"FAILURE\n{failure}", markup=False)
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())

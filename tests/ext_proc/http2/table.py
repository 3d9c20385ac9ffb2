"""The rules that raw frames try, as the table of docs/http2.md: `python -m tests.ext_proc.http2.table` writes it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.ext_proc.http2 import test_grpc_rules, test_rules
from tests.ext_proc.test_attacks import ATTACKS

PAGE: Final = Path(__file__).parents[3] / "docs" / "http2.md"
BEGIN: Final = "<!-- rules: python -m tests.ext_proc.http2.table -->\n"
END: Final = "<!-- end of rules -->\n"


def rows() -> list[tuple[str, str, str]]:
    """(section, what the client sends, what follows), by section."""
    of_connection = [
        (rule, f"connection ends: {code.name}") for rule, (_, code) in test_rules.CONNECTION_ERRORS.items()
    ]
    of_connection += [(rule, "connection ends: PROTOCOL_ERROR") for rule in test_rules.BEGINNINGS]
    of_stream = [(rule, f"stream ends: {code.name}") for rule, (_, code) in test_rules.STREAM_ERRORS.items()]
    ignored = [(rule, "accepted") for rule in test_rules.IGNORED]
    frames = [(*rule.split(" ", 1), outcome) for rule, outcome in (*of_connection, *of_stream, *ignored)]
    frames.sort(key=lambda row: [int(part) for part in row[0].split(".")])
    calls = [("gRPC", rule, f"grpc-status {code.name}") for rule, (_, code) in test_grpc_rules.STATUS.items()]
    calls += [
        ("gRPC", rule, f"HTTP status {status}, and a word") for rule, (_, status) in test_grpc_rules.NO_CALLS.items()
    ]
    attacks = [("10.5", rule, "connection ends: ENHANCE_YOUR_CALM; others are served") for rule in ATTACKS]
    return [(a, b, c) for a, b, c in (*frames, *attacks, *calls)]


def table() -> str:
    """As Markdown."""
    lines = [f"| {section} | {rule} | {outcome} |" for section, rule, outcome in rows()]
    return "\n".join(["| RFC 9113 | the client sends | what follows |", "|---|---|---|", *lines]) + "\n"


def written(page: str) -> str:
    """The page with its table as it should be."""
    head, rest = page.split(BEGIN)
    return head + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""The parts of a request are those that ext_proc works off."""

from __future__ import annotations

import pytest

from bench import ext_proc_parts
from bench.body import chat_body
from bench.ext_proc_parts import Wire, World, measure
from ext_proc.buffered import Attributes
from ext_proc.session import Session


def test_every_part_takes_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ext_proc_parts, "BUDGET_SECONDS", 0.002)
    parts = measure(2 << 10)
    assert min(parts.values()) > 0
    assert parts["all"] > parts["body"]


def test_requests_over_the_wire_of_the_bench_are_decided() -> None:
    seen: list[tuple[int, str | None]] = []

    def decide(body: bytes, attributes: Attributes, *_: object) -> bytes:
        seen.append((len(body), attributes.get("request.path")))
        return b""

    wire = Wire(World(), lambda: Session(decide))
    for size in (200, 220 << 10):
        wire.request(ext_proc_parts._message(chat_body(size)))
    assert seen == [(200, "/v1/chat/completions"), (220 << 10, "/v1/chat/completions")]

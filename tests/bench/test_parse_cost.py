"""The bench of the parser measures what it says."""

from __future__ import annotations

import msgspec
import pytest

from bench import parse_cost


def test_bodies_have_the_size_of_their_row() -> None:
    for size in (2 << 10, 220 << 10):
        assert 0.95 < len(parse_cost.chat(size)) / size < 1.2


def test_a_row_holds_both_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_cost, "SIZES", {"tiny": 512})
    monkeypatch.setattr(parse_cost, "BUDGET_SECONDS", 0.001)
    (row,) = parse_cost.measure()
    assert row["name"] == "parse_cost: tiny"
    assert row["ratio"] == row["parse_us"] / row["decode_us"] > 0


def test_the_struct_compared_with_reads_the_body() -> None:
    request = msgspec.json.decode(parse_cost.chat(1024), type=parse_cost.Request)
    assert (request.model, request.max_tokens, len(request.messages)) == ("phi-3", 256, 8)


def test_hashing_has_a_row_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_cost, "HASHED", {"tiny": 512})
    monkeypatch.setattr(parse_cost, "BUDGET_SECONDS", 0.001)
    (row,) = parse_cost.measure_hashing()
    assert row["name"] == "parse_cost: tiny prompt, hashing"
    assert row["hash_us_per_kib"] > 0

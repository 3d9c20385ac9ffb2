"""Generated traffic has the figures that were published."""

from __future__ import annotations

import itertools
from statistics import mean, stdev

import pytest

from simulator.lab.measure import percentile
from simulator.lab.synthetic import KINDS, generate
from simulator.lab.trace import BLOCK_TOKENS


@pytest.mark.parametrize("name", KINDS)
def test_lengths_have_the_published_percentiles(name: str) -> None:
    trace, figures = generate(name, 4000), KINDS[name]
    for values, wanted in (
        ([r.prompt_tokens for r in trace.requests], figures.prompt),
        ([r.output_tokens for r in trace.requests], figures.output),
    ):
        ascending = sorted(values)
        for part, tokens in zip((0.5, 0.95, 0.99), wanted, strict=True):
            assert percentile(ascending, part) == pytest.approx(tokens, rel=0.12)


@pytest.mark.parametrize("name", ["conversation", "tools"])
def test_an_infinite_cache_would_hold_the_published_part(name: str) -> None:
    seen: set[int] = set()
    reused = tokens = 0
    for request in generate(name, 2000).requests:
        held = next((i for i, block in enumerate(request.blocks) if block not in seen), len(request.blocks))
        reused += min(request.prompt_tokens, held * BLOCK_TOKENS)
        tokens += request.prompt_tokens
        seen.update(request.blocks)
        assert request.blocks[0] == 0
        assert len(request.blocks) == -(-request.prompt_tokens // BLOCK_TOKENS)
    assert reused / tokens == pytest.approx(KINDS[name].reuse, abs=0.03)


def test_equal_ids_mean_equal_whole_prefixes() -> None:
    before: dict[int, tuple[int, ...]] = {}
    for request in generate("tools", 600).requests:
        for index, block in enumerate(request.blocks):
            assert before.setdefault(block, request.blocks[:index]) == request.blocks[:index]


@pytest.mark.parametrize("name", ["chat", "code"])
def test_gaps_vary_as_published(name: str) -> None:
    stamps = [r.at_seconds for r in generate(name, 6000).requests]
    gaps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    assert 1 / mean(gaps) == pytest.approx(KINDS[name].rate, rel=0.5)
    assert stdev(gaps) / mean(gaps) == pytest.approx(KINDS[name].gap_cv, rel=0.35)


def test_stamps_of_a_quantised_kind_lie_on_its_grid() -> None:
    assert generate("conversation", 500).quantum_seconds == pytest.approx(3.0)


def test_a_seed_gives_its_trace() -> None:
    assert generate("tools", 50, 1) == generate("tools", 50, 1) != generate("tools", 50, 2)

"""A small part of what `make fuzz` tries."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzz_frames import run


def test_whatever_comes_the_connection_ends_well() -> None:
    ends, failures = run(1_500, seed=5)
    assert failures == []
    assert {"open", "right", "PROTOCOL_ERROR", "COMPRESSION_ERROR", "FRAME_SIZE_ERROR"} <= ends.keys()
    assert ends["right"] > 300


@pytest.mark.parametrize(
    ("seed", "first"),
    [
        (71, 7_533),
        (71, 14_708),
        (71, 124_275),
        (71, 147_232),
        (72, 35_103),
        (72, 184_721),
        (72, 190_714),
        (72, 240_503),
    ],
)
def test_nothing_follows_the_goaway_of_answers_that_wait_too_long_and_trailers_count_as_well(
    seed: int, first: int
) -> None:
    assert run(1, seed, first=first)[1] == []

"""A small part of what `make fuzz` tries."""

from __future__ import annotations

from tests.fuzz.fuzz_frames import run


def test_whatever_comes_the_connection_ends_well() -> None:
    ends, failures = run(1_500, seed=5)
    assert failures == []
    assert {"open", "right", "PROTOCOL_ERROR", "COMPRESSION_ERROR", "FRAME_SIZE_ERROR"} <= ends.keys()
    assert ends["right"] > 300

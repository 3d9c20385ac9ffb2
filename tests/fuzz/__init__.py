"""Fuzzers, run by hand: `python -m tests.fuzz.fuzz_parse`. The suite runs a few thousand of their inputs."""

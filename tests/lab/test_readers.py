"""Trace files: both formats, packed or not, and what is said of a bad line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from simulator.lab.readers import read
from simulator.lab.trace import TraceRequest, fitted, trace_of
from tidegate.domain.errors import ConfigError

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
MOONCAKE = (
    '{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}\n'
    '{"timestamp": 0, "input_length": 600, "output_length": 6, "hash_ids": [0, 3]}\n'
    '{"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 4]}\n'
    '{"timestamp": 3000, "input_length": 600, "output_length": 8, "hash_ids": [0, 5]}\n'
)


def write(folder: Path, name: str, text: str, packed: bool = False) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_azure_rows_become_requests(tmp_path: Path, packed: bool) -> None:
    trace = read(write(tmp_path, "a", AZURE, packed))
    assert [r[1:] for r in trace.requests] == [(374, 44, ()), (396, 109, ())]
    assert trace.requests[1].at_seconds - trace.requests[0].at_seconds == pytest.approx(4.314579)
    assert trace.quantum_seconds == 0


def test_azure_stamps_with_a_zone_are_read(tmp_path: Path) -> None:
    text = AZURE.replace("46.6805900", "46.6805900+00:00").replace("50.9951690", "50.9951690+00:00")
    assert read(write(tmp_path, "a.csv", text)).seconds == pytest.approx(2 * 4.314579)


@pytest.mark.parametrize("packed", [False, True])
def test_mooncake_lines_become_requests_with_their_prefixes(tmp_path: Path, packed: bool) -> None:
    trace = read(write(tmp_path, "m", MOONCAKE, packed))
    assert trace.requests[0] == TraceRequest(0.0, 1100, 5, (0, 1, 2))
    assert [r.at_seconds for r in trace.requests] == [0.0, 0.0, 3.0, 3.0]


def test_stamps_that_mostly_repeat_lie_on_a_grid(tmp_path: Path) -> None:
    assert read(write(tmp_path, "m", MOONCAKE)).quantum_seconds == 3.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (AZURE + "yesterday,1,2\n", ":4:"),
        (AZURE + "2023-11-16 18:15:50.9951690,1\n", ":4:"),
        (AZURE + "2023-11-16 18:15:50.9951690,-1,4\n", ":4:"),
        (MOONCAKE + "{\n", ":5:"),
        (MOONCAKE + '{"timestamp": 0, "input_length": "x", "output_length": 1}\n', ":5:"),
        (MOONCAKE + '{"timestamp": 0, "input_length": -1, "output_length": 1}\n', ":5:"),
        ("a,b\n1,2\n", ":1:"),
        ("", ":1:"),
        (MOONCAKE.splitlines()[0], "at least 2"),
    ],
    ids=[
        "date",
        "column missing",
        "negative",
        "cut off",
        "no number",
        "negative length",
        "unknown",
        "empty",
        "one row",
    ],
)
def test_a_fault_is_told_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"trace.*{said}"):
        read(write(tmp_path, "trace", text))


def test_a_file_that_is_not_there_or_broken_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "none")
    (tmp_path / "broken.gz").write_bytes(gzip.compress(AZURE.encode())[:-9])
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "broken.gz")


def test_requests_longer_than_the_context_are_cut_to_it() -> None:
    requests = [TraceRequest(0, 100, 10, (1,)), TraceRequest(1, 2000, 10, (1, 2, 3, 4)), TraceRequest(2, 5, 2000)]
    trace, cut = fitted(trace_of("t", requests), 1000)
    assert cut == 2
    assert [r[1:] for r in trace.requests] == [(100, 10, (1,)), (990, 10, (1, 2)), (1, 999, ())]

"""`tidegate lab` from its flags to its files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from simulator.lab.measure import FIGURES
from tidegate.cli.main import main

SMALL = ["--trace", "synthetic:conversation", "--limit", "60", "--seeds", "2", "--load", "0.8", "--jobs", "1"]


def lab(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    """Exit code of the command."""
    monkeypatch.setattr(sys, "argv", ["tidegate", "lab", *args])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_report_a_picture_and_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    out, png = tmp_path / "r.json", tmp_path / "r.png"
    flags = ("--policy", "pick,round_robin,oracle", "--json", str(out), "--plot", str(png), "--pickers", "4")
    assert lab(monkeypatch, *SMALL, *flags) == 0
    report = json.loads(out.read_text())
    assert {"policy", "load", "seed", *FIGURES} <= report["runs"][0].keys()
    assert len(report["runs"]) == 6
    assert report["capacity_rps"] > 0
    assert report["conditions"]["pickers"] == 4
    assert png.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "pick's TTFT p90" in printed
    assert "round_robin" in printed


def test_a_given_capacity_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    assert lab(monkeypatch, *SMALL, "--policy", "random", "--capacity", "5", "--json", str(out)) == 0
    assert json.loads(out.read_text())["capacity_rps"] == 5.0


def test_engines_have_presets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    capacities = {}
    for engine in ("8b", "70b"):
        out = tmp_path / f"{engine}.json"
        assert lab(monkeypatch, *SMALL, "--policy", "random", "--engine", engine, "--json", str(out)) == 0
        capacities[engine] = json.loads(out.read_text())["capacity_rps"]
    assert capacities["70b"] < capacities["8b"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trace", "none.csv"], "none.csv: cannot be read"),
        (["--trace", "synthetic:weather"], "there are: conversation"),
        ([*SMALL, "--policy", "pick,best"], "there is no 'best'; there are: pick"),
        ([*SMALL, "--policy", ","], "at least one"),
        ([*SMALL, "--load", "0.8,much"], "'much' is no part of the capacity"),
        ([*SMALL, "--load", "0"], "give 0.01 to 3"),
        ([*SMALL, "--engine", "1b"], "there are: 8b, 70b"),
        ([*SMALL, "--dispatch-ms", "5,2"], "no pair of milliseconds"),
        ([*SMALL, "--policy", "random", "--json", "/no/such/folder/x"], "cannot be written"),
    ],
    ids=["no file", "no kind", "no policy", "none named", "no number", "no load", "no engine", "delay", "no folder"],
)
def test_what_is_wrong_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert lab(monkeypatch, *flags) == 2
    assert said in capsys.readouterr().err


def test_a_missing_matplotlib_is_said_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert lab(monkeypatch, *SMALL, "--plot", str(tmp_path / "x.png")) == 2
    assert "pip install 'tidegate[lab]'" in capsys.readouterr().err

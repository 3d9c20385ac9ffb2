"""`tidegate up --once`: one request to each cluster through Envoy."""

from __future__ import annotations

import json
from pathlib import Path

from tests.up.cluster import tidegate


def test_once_prints_each_cluster_answered_by_itself_and_exits_0() -> None:
    done = tidegate("up", "--once", "--patience", "60", "--envoy-admin", "127.0.0.1:0", executed=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for cluster in ("phi-3", "qwen2.5-72b", "sdxl"):
        row = next(line for line in done.stdout.splitlines() if f" {cluster} " in line)
        assert "200" in row
        assert "answered" in row


def test_once_exits_1_when_a_cluster_does_not_answer(tmp_path: Path) -> None:
    config = {
        "gateway": {"listen": "127.0.0.1:0"},
        "clusters": [{"name": "gone", "models": ["gone"], "endpoints": [{"address": "127.0.0.1:1"}]}],
    }
    path = tmp_path / "tidegate.json"
    path.write_text(json.dumps(config))
    done = tidegate("up", "--once", "--config", str(path), "--envoy-admin", "127.0.0.1:0", "--patience", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    [row] = [line for line in done.stdout.splitlines() if " gone " in line]
    assert "503" in row
    assert "answered" not in row


def test_a_faulty_file_is_refused_with_every_fault_and_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.yaml"
    path.write_text("clusters:\n  - {name: a, models: [m], colour: red}\n  - {name: a, models: [m]}\n")
    done = tidegate("up", "--config", str(path))
    assert done.returncode == 2
    assert "tidegate.yaml:2" in done.stderr
    assert "colour" in done.stderr
    assert "tidegate.yaml:3" in done.stderr
    assert "Traceback" not in done.stderr

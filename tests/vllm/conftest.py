"""Two real vLLM replicas, and `tidegate up` in front of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.conftest import wait_until
from tests.vllm.environment import ensure_environment
from tests.vllm.replica import MODELS, Replica
from tests.vllm.tiny_model import CONTEXT_TOKENS, write_model
from tidegate.cli.binaries import redis_cli_binary

WEIGHTED, PICK = MODELS


@dataclass(frozen=True)
class Gateway:
    """A running `tidegate up`: `ready` is the content of its ready file."""

    ready: dict[str, Any]
    client: httpx.Client

    def chat(self, model: str, words: int = 3, **fields: Any) -> httpx.Response:
        """One chat completion of so many words, through Envoy."""
        return self.client.post("/v1/chat/completions", json=chat_request(model, words, **fields))

    def redis(self, *arguments: str) -> str:
        """What plain redis-cli prints for these arguments."""
        command = [redis_cli_binary(), "-u", self.ready["redis"], *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    def sample(self, cluster: str, address: str) -> dict[str, str]:
        """What the agent published of one replica; empty when nothing."""
        lines = self.redis("HGETALL", f"tidegate:endpoint:{cluster}:{address}").splitlines()
        return dict(zip(lines[::2], lines[1::2], strict=True))


def chat_request(model: str, words: int, **fields: Any) -> dict[str, Any]:
    content = " ".join(f"w{i}" for i in range(words))
    return {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 4} | fields


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    folder = tmp_path_factory.mktemp("vllm")
    python, model = ensure_environment(), write_model(folder / "model")
    started = [Replica(python, model, folder / f"replica{i}.log") for i in range(2)]
    try:
        for replica in started:
            replica.start()
        for replica in started:
            replica.wait_until_ready()
        yield started
    finally:
        for replica in started:
            replica.kill()


@pytest.fixture(scope="module")
def gateway(replicas: list[Replica], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("tidegate")
    config, ready, log = folder / "tidegate.json", folder / "ready.json", folder / "up.log"
    config.write_text(json.dumps(_document(replicas)))
    command = [sys.executable, "-m", "tidegate.cli.main", "up", "--config", config, "--ready-file", ready]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--envoy-admin", "127.0.0.1:0"], stdout=out, stderr=out)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, deadline_seconds=90, what="tidegate up ready")
        assert process.poll() is None, log.read_text()
        document = json.loads(ready.read_text())
        with httpx.Client(base_url=document["gateway"], timeout=300) as client:
            yield Gateway(document, client)
    finally:
        process.terminate()
        process.wait(15)


def _document(replicas: list[Replica]) -> dict[str, Any]:
    """Each replica stands in two clusters: one that Envoy balances by weight, one whose replica ext_proc picks."""
    endpoints = [{"address": replica.address} for replica in replicas]
    shared = {"context_tokens": CONTEXT_TOKENS, "endpoints": endpoints}
    return {
        "gateway": {"listen": "127.0.0.1:0"},
        "clusters": [
            {"name": WEIGHTED, "models": [WEIGHTED], "lb": "weighted", **shared},
            {"name": PICK, "models": [PICK], "lb": "pick", **shared},
        ],
    }

"""One `vllm serve` of the tiny model on a loopback port."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import wait_until
from tests.ports import take_free_port

# Two names of one model, so that one engine can stand in two clusters.
MODELS = ("tiny", "tiny-pick")
MAX_RUNNING = 4
START_SECONDS = 300.0
# One thread a replica, no look at the network, little memory: 0.6 GB resident, twice.
VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
# Few sequences and few blocks (of 128 tokens), so that a handful of requests queues and fills the cache visibly.
FLAGS = (
    *("--load-format", "dummy", "--dtype", "float32", "--enforce-eager"),
    *("--max-model-len", "2048", "--max-num-seqs", str(MAX_RUNNING), "--num-gpu-blocks-override", "64"),
)


@dataclass
class Replica:
    """Started by `start`, serving after `wait_until_ready`, gone after `kill`."""

    python: Path
    model: Path
    log: Path
    port: int = field(default_factory=take_free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [self.python.with_name("vllm"), "serve", self.model, "--served-model-name", *MODELS]
        command += ["--host", "127.0.0.1", "--port", str(self.port), *FLAGS]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env={**os.environ, **VARIABLES},
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Return once /health answers 200. AssertionError with the end of the log when vLLM ends or hangs."""
        assert self.process is not None

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"vLLM ended:\n{self.log.read_text(errors='replace')[-4000:]}"
            return self.get("/health") == ""

        wait_until(ready, deadline_seconds=START_SECONDS, what=f"vLLM at {self.address} ready")

    def get(self, path: str) -> str:
        """Text of a GET. Raises OSError when it is not answered with 200."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as response:
            return response.read().decode()

    def kill(self) -> None:
        """SIGKILL to the API server and its engine processes."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

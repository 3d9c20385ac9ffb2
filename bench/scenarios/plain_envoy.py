"""Client → Envoy → engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.body import PATH
from bench.envoy_config import write_proxy
from bench.ports import free_port
from bench.scenario import Target
from bench.upstream import Upstream, envoy


class PlainEnvoy:
    """An Envoy with a static cluster: what a proxy costs that reads nothing."""

    about = "client → Envoy → engine"

    def __init__(self, name: str = "plain-envoy", policy: str = "ROUND_ROBIN") -> None:
        self.name, self._policy = name, policy

    @contextmanager
    def target(self, upstream: Upstream, folder: Path) -> Iterator[Target]:
        port, admin = free_port(), free_port()
        write_proxy(folder / "proxy.json", port, admin, upstream.ports, self._policy)
        with envoy(folder / "proxy.json", f"http://127.0.0.1:{port}/health") as pid:
            yield Target(f"http://127.0.0.1:{port}{PATH}", {"envoy": [pid], "upstream": [upstream.pid]})

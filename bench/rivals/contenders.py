"""Who is compared, and how each is started before the same engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench import processes
from bench.body import PATH
from bench.ports import answers, free_port
from bench.rivals.install import Package, installed
from bench.scenario import Target
from bench.scenarios.plain_envoy import PlainEnvoy
from bench.scenarios.tidegate_pick import TidegatePick
from bench.upstream import Upstream

PLAIN: Final = "plain-envoy"
GRPCIO: Final = "tidegate-grpcio"
WIRE: Final = "tidegate-wire"
VLLM_P2C: Final = "vllm-router power_of_two"
VLLM_CACHE: Final = "vllm-router cache_aware"
SMG_P2C: Final = "smg power_of_two"
SMG_CACHE: Final = "smg cache_aware"

VLLM_ROUTER: Final = Package("vllm-router", "0.1.17", "vllm-router")
SMG: Final = Package("smg", "1.13.0", "smg")
ROUTER: Final = "router"
"""The name under which a rival's CPU is counted."""


class Contender(Protocol):
    """A way from the client to the engines, as `bench.scenario.Scenario` has it."""

    @property
    def name(self) -> str:
        """What its rows are called."""

    def target(self, upstream: Upstream, folder: Path) -> AbstractContextManager[Target]:
        """Start it. Raises NotInstalled, or RuntimeError with the end of a log."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A router of one process with its policy, everything else by its own defaults but the level of its log.

    A log line a request would be counted as its work.
    """

    name: str
    package: Package
    arguments: tuple[str, ...]

    @contextmanager
    def target(self, upstream: Upstream, folder: Path) -> Iterator[Target]:
        """Run it until exit."""
        port, log = free_port(), folder / "router.log"
        command = [str(installed(self.package)), *self.arguments]
        command += ["--worker-urls", *(f"http://127.0.0.1:{engine}" for engine in upstream.ports)]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
        process = processes.start(command, log)
        try:
            processes.wait_for(lambda: answers(f"http://127.0.0.1:{port}/health"), process, log)
            yield Target(f"http://127.0.0.1:{port}{PATH}", {ROUTER: [process.pid], "upstream": [upstream.pid]})
        finally:
            processes.stop(process)


def _vllm(name: str, policy: str) -> Rival:
    return Rival(name, VLLM_ROUTER, ("--policy", policy, "--log-level", "warning"))


def _smg(name: str, policy: str) -> Rival:
    return Rival(name, SMG, ("launch", "--policy", policy, "--log-level", "warn"))


CONTENDERS: Final[tuple[Contender, ...]] = (
    PlainEnvoy(name=PLAIN, policy="LEAST_REQUEST"),
    TidegatePick(name=GRPCIO, transport="grpcio"),
    TidegatePick(name=WIRE, transport="wire"),
    _vllm(VLLM_P2C, "power_of_two"),
    _vllm(VLLM_CACHE, "cache_aware"),
    _smg(SMG_P2C, "power_of_two"),
    _smg(SMG_CACHE, "cache_aware"),
)
"""Plain Envoy first: what the others add is counted from it. Tidegate scores prefixes by default."""

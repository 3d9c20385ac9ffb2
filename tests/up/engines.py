"""Simulated engines that belong to a test, not to the `tidegate up` under test."""

from __future__ import annotations

from tests import forked
from tests.conftest import accepts, wait_until


class Engines:
    """Processes by address."""

    def __init__(self) -> None:
        self.processes: dict[str, forked.Forked] = {}

    def start(self, address: str, *flags: str) -> None:
        """Start one and wait until it listens."""
        host, _, port = address.rpartition(":")
        self.processes[address] = forked.start("engine-sim", "--host", host, "--port", port, *flags)
        wait_until(lambda: accepts(int(port)), what=f"engine {address} listening")

    def kill(self, address: str) -> None:
        """kill -9."""
        process = self.processes.pop(address)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all."""
        for address in list(self.processes):
            self.kill(address)

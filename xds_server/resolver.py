"""Host names → addresses, off the event loop. Envoy refuses an EDS endpoint that is not an IP."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import structlog

log = structlog.get_logger("xds_server.resolver")

REFRESH_SECONDS: Final = 10.0
FIRST_WAIT_SECONDS: Final = 3.0

Lookup = Callable[[str], Awaitable[list[str]]]
"""The addresses of a host, at least one. Raises OSError when there is none."""


async def system_lookup(host: str) -> list[str]:
    """What the system's resolver says, IPv4 first, each family in ascending order."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found = {ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in infos}
    return [str(ip) for ip in sorted(found, key=lambda ip: (ip.version, int(ip)))]


class Resolver:
    """Remembers every name's last good address. An address stays while the name still has it among others."""

    def __init__(self, lookup: Lookup = system_lookup, monotonic_seconds: Callable[[], float] = time.monotonic) -> None:
        self._lookup, self._now = lookup, monotonic_seconds
        self._known: dict[str, str] = {}
        self._tried_at: dict[str, float] = {}
        self._failing: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}

    async def addresses(self, hosts: Iterable[str]) -> Mapping[str, str]:
        """host → IP of those that are known. Waits up to 3 s for hosts asked for the first time, never again.

        Known names are looked up anew every 10 s in the background.
        """
        wanted = set(hosts)
        first = [self._start(host) for host in sorted(wanted) if host not in self._tried_at]
        for host in sorted(wanted):
            if self._now() - self._tried_at[host] >= REFRESH_SECONDS:
                self._start(host)
        if first:
            await asyncio.wait(first, timeout=FIRST_WAIT_SECONDS)
        return {host: self._known[host] for host in wanted if host in self._known}

    async def close(self) -> None:
        """Cancel lookups that are under way."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _start(self, host: str) -> asyncio.Task[None]:
        self._tried_at[host] = self._now()
        if host not in self._running:
            self._running[host] = asyncio.create_task(self._resolve(host), name=f"resolve {host}")
            self._running[host].add_done_callback(lambda _: self._running.pop(host, None))
        return self._running[host]

    async def _resolve(self, host: str) -> None:
        try:
            found = await self._lookup(host)
        except OSError as exc:
            if host not in self._failing:
                log.warning("name not resolved", host=host, error=str(exc), kept=self._known.get(host))
            self._failing.add(host)
            return
        self._failing.discard(host)
        if self._known.get(host) not in found:
            self._known[host] = found[0]

"""Which address each part of the local cluster binds: the wanted one, or a free one when it is busy."""

from __future__ import annotations

import fcntl
import secrets
import socket
from collections.abc import Callable
from typing import IO

from tidegate.cli.up.registry import folder
from tidegate.domain.errors import TidegateError

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
RANGE = range(20_000, 32_768)
"""Below what Linux names to clients by default (net.ipv4.ip_local_port_range): no connection leaves from here."""


def is_free(host: str, port: int) -> bool:
    """Whether `host:port` can be bound at this moment."""
    with socket.socket(_family(host)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError:
            return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Ports:
    """Hands out ports, none twice, also to several `tidegate up` that start at once.

    A lock on a file a port is held until this process ends, since the child that binds the port starts later.
    `say` is told of each busy port that was replaced.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._locks: dict[int, IO[bytes]] = {}

    def want(self, what: str, host: str, port: int) -> int:
        """`port`, or any free one when it is 0 or busy (which is said)."""
        if port and is_free(host, port) and self._lock(port):
            return port
        free = self.any(host)
        if port:
            self._say(f"port {port} for {what} is busy; using {free}")
        return free

    def any(self, host: str = LOOPBACK) -> int:
        """A free port that nobody was given before, from RANGE. Raises TidegateError when none is left."""
        first = secrets.randbelow(len(RANGE))
        order: tuple[int, ...] = (*RANGE[first:], *RANGE[:first])
        for port in order:
            if is_free(host, port) and self._lock(port):
                return port
        raise TidegateError(f"no port of {host} between {RANGE[0]} and {RANGE[-1]} is free")

    def row(self, length: int, host: str = LOOPBACK) -> int:
        """The first of `length` free ports in a row that nobody was given before."""
        while True:
            first = self.any(host)
            rest = range(first + 1, first + length)
            if first + length <= LAST_PORT + 1 and all(is_free(host, port) and self._lock(port) for port in rest):
                return first

    def _lock(self, port: int) -> bool:
        if port in self._locks:
            return False
        handle = (folder() / f"port-{port}").open("wb")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            return False
        self._locks[port] = handle
        return True

    def release(self) -> None:
        """Let go of every port."""
        for port, handle in self._locks.items():
            (folder() / f"port-{port}").unlink(missing_ok=True)
            handle.close()
        self._locks.clear()

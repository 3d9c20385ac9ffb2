"""Which address each part of the local cluster binds: the wanted one, or a free one when it is busy."""

from __future__ import annotations

import socket
from collections.abc import Callable

LOOPBACK = "127.0.0.1"


def is_free(host: str, port: int) -> bool:
    """Whether `host:port` can be bound at this moment."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError:
            return False
    return True


class Ports:
    """Hands out ports, none twice. `say` is told of each busy one that was replaced."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._taken: set[int] = set()

    def want(self, what: str, host: str, port: int) -> int:
        """`port`, or any free one when it is 0, taken or busy (which is said)."""
        if port and port not in self._taken and is_free(host, port):
            self._taken.add(port)
            return port
        free = self.any(host)
        if port:
            self._say(f"port {port} for {what} is busy; using {free}")
        return free

    def any(self, host: str = LOOPBACK) -> int:
        """A free port that was not handed out before."""
        while True:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
                sock.bind((host, 0))
                port = int(sock.getsockname()[1])
            if port not in self._taken:
                self._taken.add(port)
                return port

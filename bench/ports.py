"""Loopback ports."""

from __future__ import annotations

import atexit
import socket
import urllib.error
import urllib.request

from tidegate.cli.up.ports import Ports

_PORTS = Ports(print)
atexit.register(_PORTS.release)


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on, and that nobody else is given while this process lives."""
    return _PORTS.any()


def accepts(port: int) -> bool:
    """Whether something listens on the loopback port."""
    with socket.socket() as sock:
        sock.settimeout(0.5)
        return sock.connect_ex(("127.0.0.1", port)) == 0


def answers(url: str) -> bool:
    """Whether a GET of `url` gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False

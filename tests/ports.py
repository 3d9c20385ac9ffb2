"""Ports of the loopback that are given to one test alone.

A port that the kernel names is free only until somebody else is named the same: a listener of Envoy then shares it
without a word (SO_REUSEPORT), and the client of a third may leave from it. So these lie below the ports that the
kernel names, and beside those of `tidegate up`; each process has blocks of its own, and takes no port twice.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final

FIRST: Final = 11_000
LAST: Final = 19_999
BLOCK: Final = 50


def _bound(port: int) -> socket.socket | None:
    sock = socket.socket()
    try:
        sock.bind(("127.0.0.1", port))
    except OSError:
        sock.close()
        return None
    return sock


def _free() -> Iterator[int]:
    blocks: list[socket.socket] = []
    for first in range(FIRST, LAST + 1, BLOCK):
        # The first port of a block is bound for as long as this process lives: the block is its own.
        if (guard := _bound(first)) is not None:
            blocks.append(guard)
            for port in range(first + 1, first + BLOCK):
                if (sock := _bound(port)) is not None:
                    sock.close()
                    yield port


_PORTS: Final = _free()


def take_free_port() -> int:
    """A TCP port of the loopback that nobody listens on, and that no other test is given.

    Raises RuntimeError when this process and others have taken them all.
    """
    try:
        return next(_PORTS)
    except StopIteration:
        raise RuntimeError(f"no port between {FIRST} and {LAST} is left") from None


def take_free_row(length: int) -> int:
    """The first of `length` such ports in a row, at most BLOCK - 1."""
    row = [take_free_port()]
    while len(row) < length:
        port = take_free_port()
        row = [*row, port] if port == row[-1] + 1 else [port]
    return row[0]

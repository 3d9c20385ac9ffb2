"""A Redis of a bench's own."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import processes
from bench.ports import accepts, free_port
from tidegate.cli.binaries import redis_server_binary
from tidegate.store import commands


def calls(port: int, command: str) -> int:
    """How often that Redis has carried out `command`, in lower case."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as redis:
        redis.sendall(commands.packed([("INFO", "commandstats"), ("ECHO", "end")]))
        raw = b""
        while not raw.endswith(b"$3\r\nend\r\n"):
            raw += redis.recv(65536)
    found = re.search(rb"cmdstat_%b:calls=(\d+)" % command.encode(), raw)
    return int(found[1]) if found else 0


@contextmanager
def redis_server(folder: Path) -> Iterator[tuple[int, int]]:
    """Run a Redis that keeps nothing on disk until exit; yields its port and its pid."""
    port, log = free_port(), folder / "redis.log"
    command = [str(redis_server_binary()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = processes.start([*command, "--dir", str(folder)], log)
    try:
        processes.wait_for(lambda: accepts(port), process, log)
        yield port, process.pid
    finally:
        processes.stop(process)

"""`tidegate …` as a process of its own, forked from one that has imported everything: a tenth of an exec's CPU.

`start` answers with what is used of `subprocess.Popen`. Each pytest process has one fork server, which starts at the
first need of it and ends with it, as do the children. Run as a program, this module is that fork server: a line of
JSON asks for a child, or for the exit code of one that has ended, and a line with a number answers.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

ROOT: Final = Path(__file__).parents[1]
MODULES: Final = (
    "ext_proc.app",
    "ext_proc.workers",
    "metrics_agent.app",
    "outcomes.app",
    "simulator.app",
    "tidegate.cli.operate",
    "tidegate.cli.services",
    "tidegate.cli.status",
    "tidegate.cli.up.command",
    "uvloop",
    "xds_server.app",
)
"""What the commands import: of it, nothing starts a thread or reads its settings when it is imported."""


class Forked:
    """A child. It is the fork server's, which keeps its number until somebody asks how it ended."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server, self._handle = server, os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None while it runs."""
        return self._end_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """`poll`, once it has ended. Raises TimeoutExpired."""
        code = self._end_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, signum: signal.Signals) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end_within(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if poll.poll(None if seconds is None else seconds * 1000):
                self.returncode = self._server.ask({"ended": self.pid})
                os.close(self._handle)
        return self.returncode


class ForkServer:
    """The process that forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.forked"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        self._one_asks = threading.Lock()
        atexit.register(self._close)

    def ask(self, request: Mapping[str, Any]) -> int:
        with self._one_asks:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def _close(self) -> None:
        self._process.communicate()


_servers: list[ForkServer] = []


def start(
    *arguments: str,
    log: Path | None = None,
    errors: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    store_seconds: float | None = None,
) -> Forked:
    """`tidegate ARGUMENTS…` with the environment as it is now and `env`.

    Its output is added to `log`, what it writes to stderr to `errors` where they are given, or else to `log`. Without a
    log it is dropped. It waits for Redis for `store_seconds` where they are given, or else as long as a store does.
    """
    if not _servers:
        _servers.append(ForkServer())
    child = {
        "arguments": arguments,
        "streams": [str((path or log or Path(os.devnull)).absolute()) for path in (log, errors)],
        "cwd": str((cwd or Path.cwd()).absolute()),
        "environment": {**os.environ, **(env or {})},
        "store_seconds": store_seconds,
    }
    return Forked(_servers[0], _servers[0].ask(child))


def _serve() -> dict[str, Any] | None:
    """Answer requests until nobody asks any more; in a child, what it shall be."""
    for line in sys.stdin.buffer:
        request: dict[str, Any] = json.loads(line)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            answer = os.waitstatus_to_exitcode(status)
        elif (answer := os.fork()) == 0:
            return request
        os.write(1, b"%d\n" % answer)
    return None


def _become(child: Mapping[str, Any], server: int) -> None:
    """Run the command line as an exec would have started it."""
    from tidegate.cli import main
    from tidegate.runtime import die_with_parent
    from tidegate.store.redis import RedisStore

    die_with_parent()
    if os.getppid() != server:
        return  # it ended before it could be watched
    os.environ.clear()
    os.environ.update(child["environment"])
    os.chdir(child["cwd"])
    _use_streams(*child["streams"])
    if child["store_seconds"] is not None:
        cast("dict[str, Any]", RedisStore.__init__.__kwdefaults__)["timeout_seconds"] = child["store_seconds"]
    gc.enable()
    sys.argv = ["tidegate", *child["arguments"]]
    sys.modules["__main__"] = main  # multiprocessing tells its processes to import it
    main.main()


def _use_streams(*paths: str) -> None:
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, path in enumerate(paths, 1):
        with Path(path).open("ab") as out:
            os.dup2(out.fileno(), number)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - the process's own
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which ends children in its own order
    gc.disable()  # a collection would write to, and so copy, the pages that children share
    for name in MODULES:
        import_module(name)
    gc.freeze()
    server = os.getpid()
    if child := _serve():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _become(child, server)


if __name__ == "__main__":
    _main()

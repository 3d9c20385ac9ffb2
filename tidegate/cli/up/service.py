"""What a forked child does with its life: it becomes a `tidegate SERVICE` as an exec would have started it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from setproctitle import setproctitle

from tidegate.runtime import die_with_parent


def serve(arguments: Sequence[str], log: Path) -> None:
    """Run the command line `tidegate ARGUMENTS…`, in a session of its own, with all output at the end of `log`."""
    from tidegate.cli.up.preloaded import server_pid  # noqa: PLC0415 - what `tidegate up` itself must not import

    os.setsid()
    die_with_parent()
    if os.getppid() != server_pid:
        return  # the fork server died before it could be watched
    _write_to(log)
    gc.enable()
    sys.argv = ["tidegate", *arguments]
    setproctitle(" ".join(sys.argv))
    from tidegate.cli.main import main  # noqa: PLC0415 - errors of the import are the log's

    main()


def _write_to(log: Path) -> None:
    """Both streams to the file, with Python's own made anew: the fork server's may be a terminal's, or none."""
    with log.open("ab") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - the process's own
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115

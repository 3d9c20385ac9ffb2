"""Start, watch and end the processes of a scenario; read from /proc what each spent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


def start(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command with its output in `log`, in a process group of its own.

    From here on SIGTERM ends this process as an exit does, so that whoever started something also ends it.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and current_thread() is main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )


def stop(process: subprocess.Popen[Any], patience_seconds: float = 10.0) -> None:
    """SIGTERM, and SIGKILL to its whole group when it is not gone after `patience_seconds`."""
    process.terminate()
    try:
        process.wait(patience_seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):  # one that leads no group
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def wait_for(
    condition: Callable[[], object], process: subprocess.Popen[bytes], log: Path, seconds: float = 60.0
) -> None:
    """Return once `condition()` holds; RuntimeError with the end of the log when the process dies or time is up."""
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            state = "ended" if process.poll() is not None else f"is not ready after {seconds:.0f} s"
            raise RuntimeError(f"{process.args!r} {state}:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system seconds that these processes spent so far; one that is gone counts 0."""
    return sum(_ticks(pid) for pid in pids) / TICKS


def _ticks(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def resident_mib(pid: int) -> float:
    """The resident memory of a process, in MiB."""
    return _status_mib(pid, "VmRSS")


def reset_peak(pid: int) -> None:
    """Let `peak_mib` count from here (Linux: 5 to clear_refs resets VmHWM)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(pid: int) -> float:
    """The most resident memory of a process since its start or `reset_peak`, in MiB."""
    return _status_mib(pid, "VmHWM")


def _status_mib(pid: int, field: str) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{field}:")[2].split()[0]) / 1024

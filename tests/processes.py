"""Other processes, by number."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether it runs. One that ended and that its parent, or init, has not noticed yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"

"""Which local clusters run on this machine, so that `tidegate status` finds the one beside it without a flag."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def folder() -> Path:
    """The folder of this user's running clusters, made if need be."""
    named = os.environ.get("XDG_RUNTIME_DIR")
    # The variable often survives `su` or `sudo` and then names a folder of somebody else, or none.
    base = named if named and os.access(named, os.W_OK | os.X_OK) else tempfile.gettempdir()
    path = Path(base) / f"tidegate-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def announce(ready: Mapping[str, Any], source: Path | None) -> Path:
    """Note a running cluster and the file it was started from. Returns the note, for `withdraw`."""
    note = folder() / f"{os.getpid()}.json"
    note.touch(mode=0o600)
    note.write_text(json.dumps({**ready, "source": str(source.resolve()) if source else None}))
    return note


def withdraw(note: Path) -> None:
    """Remove the note of a cluster that ended."""
    note.unlink(missing_ok=True)


def running(source: Path | None = None) -> list[dict[str, Any]]:
    """Every cluster of this user that runs, or every one that was started from `source`; oldest first."""
    found: list[tuple[float, dict[str, Any]]] = []
    for note in folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            if note.stat().st_uid != os.getuid():
                continue
            if not _alive(int(note.stem)):
                note.unlink(missing_ok=True)
                continue
            found.append((note.stat().st_mtime, json.loads(note.read_text())))
    wanted = str(source.resolve()) if source else None
    matching = [item for item in found if wanted is None or wanted in {item[1]["source"], item[1]["config"]}]
    return [cluster for _, cluster in sorted(matching, key=lambda item: item[0])]


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
        return True
    return False

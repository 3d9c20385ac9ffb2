"""Routers from PyPI, each in an environment of its own under `.tools/rivals/`, so that none meets our dependencies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / ".tools" / "rivals"
PATIENCE_SECONDS: Final = 600.0


class NotInstalled(Exception):  # noqa: N818 - read as a sentence
    """A router cannot be had here; says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Package:
    """A router on PyPI: the command that it brings, and the version that is compared."""

    name: str
    version: str
    command: str


def installed(package: Package, folder: Path = FOLDER) -> Path:
    """The router's command, installed on the first call. Raises NotInstalled."""
    home = folder / f"{package.name}-{package.version}"
    command = home / "bin" / package.command
    if command.exists():
        return command
    _run([sys.executable, "-m", "venv", str(home)], package)
    _run([str(home / "bin" / "pip"), "install", "-q", f"{package.name}=={package.version}"], package, home)
    return command


def _run(command: list[str], package: Package, home: Path | None = None) -> None:
    """Run a step of an installation; what it left goes when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        failed = (done.stderr or done.stdout).strip().splitlines()[-1:] if done.returncode else []
        why = "".join(failed) or f"exit code {done.returncode}" if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as exc:
        why = str(exc)
    if why:
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)
        raise NotInstalled(f"{package.name} {package.version} is left out: it does not install here ({why})")

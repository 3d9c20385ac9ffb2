"""Where the `tidegate` program begins: Ctrl-C during the imports is an end, not a traceback."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def _end(_signum: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(INTERRUPTED)


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, _end)
    from tidegate.cli.main import main as run  # noqa: PLC0415 - the imports are what may be interrupted

    run()

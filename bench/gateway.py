"""The gateway that a scenario measures: `tidegate up` on a configuration of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes

TIDEGATE: Final = (sys.executable, "-m", "tidegate.cli.main")


@contextmanager
def gateway(
    folder: Path,
    config: Mapping[str, Any],
    *flags: str,
    environment: Mapping[str, str] | None = None,
    start_seconds: float = 60.0,
    stop_seconds: float = 10.0,
) -> Iterator[Path]:
    """Run `tidegate up` on `config` until exit; its ready file, once it serves. Logs and files lie in `folder`.

    The ready file is written again whenever a part is started again. Raises RuntimeError with the end of the log when
    it does not serve within `start_seconds`; what has not ended after `stop_seconds` is killed.
    """
    file, ready, log = folder / "tidegate.json", folder / "ready.json", folder / "up.log"
    file.write_text(json.dumps(config))
    command = [*TIDEGATE, "up", "--config", str(file), "--ready-file", str(ready), "--envoy-admin", "127.0.0.1:0"]
    process = processes.start([*command, "--keep-logs", str(folder), *flags], log, environment)
    try:
        processes.wait_for(ready.exists, process, log, start_seconds)
        yield ready
    finally:
        processes.stop(process, stop_seconds)

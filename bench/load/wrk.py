"""wrk, the HTTP load generator that Debian packages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bench.load import Load, files_of

SCRIPT = Path(__file__).with_name("post.lua")
MARK = "RESULT "


class Wrk:
    """One thread, so that the generator takes at most one core."""

    name = "wrk"
    remark = "load by wrk, one thread"

    def run(self, url: str, body: Path, connections: int, seconds: float) -> Load:
        whole = max(1, round(seconds))  # wrk takes whole seconds
        command = ["wrk", "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", "10s", "-s", str(SCRIPT)]
        command += [url, "--", *map(str, files_of(body))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=whole + 30, check=False)
        return parse(done.stdout, done.stderr)


def parse(output: str, errors: str = "") -> Load:
    """Read the line that post.lua prints. Raises RuntimeError with wrk's own words when there is none."""
    line = next((text for text in output.splitlines() if text.startswith(MARK)), None)
    if line is None:
        raise RuntimeError(f"wrk gave no result: {(errors or output).strip()}")
    result = json.loads(line.removeprefix(MARK))
    return Load(
        requests=result["requests"],
        seconds=result["microseconds"] / 1e6,
        p50_ms=result["p50_us"] / 1e3,
        p99_ms=result["p99_us"] / 1e3,
        errors=result["errors"],
    )

"""Freed memory stays with the process."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import resource
from ext_proc.memory import keep_freed_memory
if {keep}:
    assert keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(40):
    bodies = [b"x" * (1 << 20) for _ in range(8)]
    del bodies
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(*, keep: bool) -> int:
    command = [sys.executable, "-c", PROBE.format(keep=keep)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_body_after_another_costs_no_fresh_pages() -> None:
    assert page_faults(keep=True) * 5 < page_faults(keep=False)

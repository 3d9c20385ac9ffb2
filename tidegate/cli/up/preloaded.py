"""What the fork server imports before it forks: everything that services of `tidegate up` need, and nothing started.

The one module whose import acts, since multiprocessing gives a fork server no other hook. Imported by it alone. No
module below starts a thread, opens a connection or reads its settings when it is imported (a test holds the first).
"""

from __future__ import annotations

import gc
import os
from importlib import import_module
from typing import Final

MODULES: Final = (
    "controller.hooks.app",
    "ext_proc.app",
    "ext_proc.workers",
    "metrics_agent.app",
    "outcomes.app",
    "simulator.app",
    "tidegate.cli.companions",
    "tidegate.cli.main",
    "tidegate.cli.services",
    "tidegate.cli.up.service",
    "uvloop",
    "xds_server.app",
)

server_pid: Final = os.getpid()
"""The fork server; in what it forked, its parent while that lives."""

os.setsid()  # Ctrl-C reaches `tidegate up` alone
import_module("tidegate.runtime").die_with_parent()
if os.environ.get("TIDEGATE_UP_PID", str(os.getppid())) != str(os.getppid()):
    raise SystemExit  # whoever asked for it died before its end could be told
import_module("setproctitle").setproctitle("tidegate up: fork server")
# As the gc module's documentation has it: a collection would write to, and so copy, the pages that children share.
gc.disable()
for _name in MODULES:
    import_module(_name)
gc.freeze()

"""The process that calls the driver, with other delays: what a test does not wait for comes at once or never."""

from __future__ import annotations


def worker_with(**constants):
    """What stands for process.WORKER: the real one with these constants of its module."""
    changed = "".join(f"worker.{name} = {value!r}\n" for name, value in constants.items())
    return "-c", f"from metrics_agent.gpu import worker\n{changed}worker.main()\n"


NEVER = (600.0, 600.0)
IMPATIENT = worker_with(RETRY_SECONDS=(0.05, 0.2), LOST_SECONDS=(0.05, 0.2))
PATIENT = worker_with(LOST_SECONDS=NEVER, LEAVE_SECONDS=60.0)

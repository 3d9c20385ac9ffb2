"""The process that makes every NVML call: `python -m metrics_agent.gpu.worker INTERVAL_SECONDS`.

It tells its readings on standard output and ends when its standard input does, or at SIGTERM: it finishes the call it
is in and shuts NVML down. A call that hangs gets LEAVE_SECONDS for that. NVML is initialised once, and again only
after a fault of the whole driver or the loss of a card, ever more rarely.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from metrics_agent import nvml
from metrics_agent.gpu.errors import DRIVER_MISMATCH, GPU_LOST, GpuError
from metrics_agent.gpu.port import GpuFields, NvmlState
from metrics_agent.gpu.protocol import Message, encode
from metrics_agent.gpu.sweep import Sweeper

RETRY_SECONDS: Final = (2.0, 60.0)
LOST_SECONDS: Final = (30.0, 600.0)
WELL_SECONDS: Final = 60.0
LEAVE_SECONDS: Final = 1.0
STATES: Final = frozenset(NvmlState)


class Worker:
    """Reads the driver until `stopping` is set. `tell` passes one message on; `ready` is called once NVML is up."""

    def __init__(
        self,
        interval_seconds: float,
        tell: Callable[[Message], None],
        stopping: threading.Event,
        ready: Callable[[], None],
    ) -> None:
        self._interval, self._tell, self._stopping, self._ready = interval_seconds, tell, stopping, ready
        self._retries, self._losses = _delays(*RETRY_SECONDS), _delays(*LOST_SECONDS)
        self._most_cards = 0

    def run(self) -> None:
        """Initialise, read until a fault, wait, and so on."""
        self._tell(Message(NvmlState.STARTING))
        while not self._stopping.is_set():
            try:
                nvml.initialise()
            except GpuError as exc:
                self._rest(exc)
                if exc.kind == DRIVER_MISMATCH:
                    return  # only another process loads the library that may have been installed since
                continue
            self._ready()
            self._read_until_fault()

    def _read_until_fault(self) -> None:
        began = time.monotonic()
        try:
            self._read()
        except GpuError as exc:
            _shut_down()
            if time.monotonic() - began > WELL_SECONDS:
                self._retries = _delays(*RETRY_SECONDS)
            self._rest(exc)
        else:
            _shut_down()

    def _rest(self, exc: GpuError) -> None:
        """Say what is wrong and wait."""
        state = NvmlState(exc.kind) if exc.kind in STATES else NvmlState.ERROR
        wait = next(self._retries)
        self._tell(Message(state, read_at_ms=_now_ms(), quiet_seconds=wait))
        self._stopping.wait(wait)

    def _read(self) -> None:
        """Sweep after sweep, until told to stop or a lost card is due to be looked for by another initialisation."""
        sweeper, look_again_at = Sweeper(_now_ms), None
        while not self._stopping.is_set():
            began, at_ms = time.monotonic(), _now_ms()
            gpus = sweeper.sweep()
            self._tell(Message(NvmlState.OK, gpus, at_ms, self._interval))
            look_again_at = self._look_again_at(gpus, look_again_at)
            if look_again_at is not None and began >= look_again_at:
                return
            self._stopping.wait(max(0.0, began + self._interval - time.monotonic()))

    def _look_again_at(self, gpus: dict[str, GpuFields], due: float | None) -> float | None:
        """When to initialise anew because a card is lost; None while none is."""
        count = sum("index" in fields for fields in gpus.values())
        self._most_cards = max(self._most_cards, count)
        if count == self._most_cards and all(fields.get("reason") != GPU_LOST for fields in gpus.values()):
            self._losses = _delays(*LOST_SECONDS)
            return None
        return time.monotonic() + next(self._losses) if due is None else due


def main() -> None:
    """Run as the agent's child."""
    stopping, done = threading.Event(), threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the agent decides
    out = os.dup(1)
    os.dup2(2, 1)  # a driver that prints does not garble the messages
    threading.Thread(target=_end_with_parent, args=(stopping, done), daemon=True).start()

    def on_sigterm() -> None:
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def tell(message: Message) -> None:
        os.write(out, encode(message))

    with contextlib.suppress(BrokenPipeError):
        Worker(float(sys.argv[1]), tell, stopping, on_sigterm).run()
    done.set()


def _end_with_parent(stopping: threading.Event, done: threading.Event) -> None:
    """Wait for the end of standard input. A driver call that outlives it by LEAVE_SECONDS is left."""
    while os.read(0, 1):
        pass
    stopping.set()
    if not done.wait(LEAVE_SECONDS):
        os._exit(1)


def _shut_down() -> None:
    with contextlib.suppress(GpuError):
        nvml.shut_down()


def _delays(first: float, most: float) -> Iterator[float]:
    while True:
        yield first
        first = min(2 * first, most)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()

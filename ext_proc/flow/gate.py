"""The door of one cluster: who comes in at once, who waits, who is sent away.

        arrival ──▶ batch window ──▶ room? ──yes──▶ placed
                    (when it is on)   │ no
                                      ▼
                                    queue ──▶ placed, as room appears and by turns
                                      ├─────▶ 429 at the deadline, or for one that needs the place more
                                      └─────▶ gone with its client

Nothing waits while the view is stale (Envoy's weights decide at once) or closed (503 at once). Belongs to the event
loop; `changed` is to be called whenever there may be room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ext_proc.flow.arrival import Arrival, Placed
from ext_proc.flow.counts import GateCounts, Outcome
from ext_proc.flow.later import Later, Reply
from ext_proc.responses import more_time
from ext_proc.view import EASED, ClusterView
from tidegate.domain.flow.batch import BatchWindow
from tidegate.domain.flow.queue import FlowQueue
from tidegate.domain.flow.settings import DEFAULT, FlowSettings
from tidegate.domain.pick.verdict import Verdict
from tidegate.domain.refusal import Reason, Refusal

MARGIN_MS: Final = 5_000
"""What Envoy waits beyond a request's deadline: the answer has to arrive before."""
NEVER_HOLD: Final = 0.0
URGENT_MS: Final = 60_000
"""How long after an urgent request others leave room for the next one."""
LOOK_MS: Final = 25
"""An arrival that meets others who wait sees to it that somebody looked for room so lately."""


class Gate:
    """`clock` gives Unix milliseconds, `awake` is called when somebody waits."""

    def __init__(self, view: ClusterView, clock: Callable[[], int], awake: Callable[[], None] = lambda: None) -> None:
        self.view = view
        self.queue: FlowQueue[Arrival] = FlowQueue(DEFAULT)
        self.counts = GateCounts()
        self._window: BatchWindow[Arrival] = BatchWindow()
        self._clock, self._awake = clock, awake
        self._stopping = False
        self._looked_ms = 0
        self._urgent_ms = -URGENT_MS

    @property
    def settings(self) -> FlowSettings:
        """Those in force."""
        return self.queue.settings

    @property
    def busy(self) -> bool:
        """Whether anybody waits."""
        return len(self.queue) > 0 or len(self._window) > 0

    def tune(self, settings: FlowSettings) -> None:
        """From now on these hold; deadlines that were set stay."""
        self.queue.settings = settings

    def admit(self, arrival: Arrival) -> Reply:
        """The answer, at once or later. Raises what writing the answer raises."""
        now_ms = self._clock()
        arrival.arrived_ms = now_ms
        arrival.deadline_ms = now_ms + self.settings.timeout_ms
        if arrival.priority < 0:
            self._urgent_ms = now_ms
        if now_ms - self._looked_ms >= LOOK_MS:
            self.changed()
        if self._stopping:
            self._let_through(arrival, now_ms)
        elif self.settings.batch_window_ms:
            self._batch(arrival, now_ms)
        else:
            self._try(arrival, now_ms)
        return arrival.reply if arrival.reply is not None else self._later(arrival)

    def changed(self) -> None:
        """There may be room, or a deadline may have come."""
        now_ms = self._looked_ms = self._clock()
        if self.busy:
            if self._window.closes_ms is not None and self._window.closes_ms <= now_ms:
                self._flush(now_ms)
            self._expire(now_ms)
            self.queue.place(lambda arrival: self._fits(arrival, now_ms), now_ms)

    def stop(self) -> None:
        """Let everybody through: to where there is room, else where Envoy's weights say."""
        now_ms, self._stopping = self._clock(), True
        self._flush(now_ms)
        for arrival in self.queue.place(lambda _: True, now_ms):
            self._let_through(arrival, now_ms)

    def _try(self, arrival: Arrival, now_ms: int) -> None:
        """Nobody overtakes those of the same priority or a more urgent one who wait already."""
        if self.queue.ahead_of(arrival.priority) or not self._fits(arrival, now_ms):
            self._enqueue(arrival, now_ms)

    def _fits(self, arrival: Arrival, now_ms: int) -> bool:
        """Place the arrival if there is room. True: it needs no place in the queue any more."""
        if arrival.gone:
            return True
        if arrival.watch is not None:
            arrival.watch.picking()
        hold, spare = self._left_free(arrival, now_ms)
        pick = self.view.pick(arrival.work, now_ms, hold_seconds=hold, spare_ratio=spare)
        if pick.verdict is Verdict.FULL:
            return False
        if pick.verdict is Verdict.CLOSED:
            self.counts.left(arrival, Outcome.CLOSED, now_ms)
            arrival.settle(Refusal(Reason.NO_ENDPOINT, f"No endpoint of `{self.view.cluster.name}` can serve."))
            return True
        outcome = Outcome.PLACED if pick.verdict is Verdict.CHOSEN else Outcome.EASED
        self.counts.left(arrival, outcome, now_ms, arrival.trace_id)
        arrival.settle(Placed(pick, max(0, now_ms - arrival.arrived_ms)))
        return True

    def _left_free(self, arrival: Arrival, now_ms: int) -> tuple[float | None, float]:
        """From which wait on the arrival is held, and which part of a replica it leaves free.

        The urgent are not held. While such come, the others leave them some room: who uses no priorities loses nothing.
        """
        if arrival.priority < 0:
            return NEVER_HOLD, 0.0
        if now_ms - self._urgent_ms > URGENT_MS:
            return None, 0.0
        hold = self.view.picker.settings.hold_seconds or self.settings.urgent_hold_seconds
        return hold, self.settings.urgent_spare_ratio

    def _enqueue(self, arrival: Arrival, now_ms: int) -> None:
        offer = self.queue.offer(arrival)
        for one in offer.displaced:
            self._send_away(one, Outcome.DISPLACED, now_ms)
        if not offer.waits:
            self._send_away(arrival, Outcome.SATURATED, now_ms)

    def _send_away(self, arrival: Arrival, outcome: Outcome, now_ms: int) -> None:
        self.counts.left(arrival, outcome, now_ms)
        name, seconds = self.view.cluster.name, self.queue.retry_after_seconds(arrival.priority, now_ms)
        if outcome is Outcome.TIMEOUT:
            reason, why = Reason.QUEUE_TIMEOUT, f"`{name}` had no room for the request in time."
        else:
            reason, why = Reason.SATURATED, f"`{name}` is saturated, and so is its queue."
        arrival.settle(Refusal(reason, why, retry_after_seconds=seconds))

    def _expire(self, now_ms: int) -> None:
        for arrival in self.queue.expired(now_ms):
            self._send_away(arrival, Outcome.TIMEOUT, now_ms)

    def _let_through(self, arrival: Arrival, now_ms: int) -> None:
        if not self._fits(arrival, now_ms):
            self.counts.left(arrival, Outcome.EASED, now_ms)
            arrival.settle(Placed(EASED, max(0, now_ms - arrival.arrived_ms)))

    def _batch(self, arrival: Arrival, now_ms: int) -> None:
        if self._window.closes_ms is None:
            delay = self.settings.batch_window_ms / 1000
            asyncio.get_running_loop().call_later(delay, self.changed)
        if self._window.add(arrival, arrival.priority, arrival.work.prompt_tokens, now_ms, self.settings):
            self._flush(now_ms)

    def _flush(self, now_ms: int) -> None:
        """Place what the window holds. A fault in the answer of the one that just came is raised after the others."""
        faults: list[Exception] = []
        for arrival in self._window.empty():
            try:
                if self._stopping:
                    self._let_through(arrival, now_ms)
                elif not arrival.gone:
                    self._try(arrival, now_ms)
            except Exception as exc:  # noqa: BLE001 - it is raised again below
                faults.append(exc)
        if faults:
            raise faults[0]

    def _later(self, arrival: Arrival) -> Later:
        arrival.later = asyncio.get_running_loop().create_future()
        arrival.later.add_done_callback(lambda _: self._done(arrival))
        self._awake()
        return Later(more_time(self.settings.timeout_ms + self.settings.batch_window_ms + MARGIN_MS), arrival.later)

    def _done(self, arrival: Arrival) -> None:
        """Called for every answer; only those that were cancelled still hold a place."""
        if arrival.gone and not self._window.discard(arrival) and self.queue.holds(arrival):
            self.queue.leave(arrival)
        if arrival.gone:
            self.counts.left(arrival, Outcome.GONE, self._clock())
            if arrival.watch is not None:
                arrival.watch.gone()

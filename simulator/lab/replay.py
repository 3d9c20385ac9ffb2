"""One run: calls through pickers to engines, in simulated time."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, Final

from simulator.engine import EngineParams, Event, EventKind, Sequence, StepCost
from simulator.lab.call import Call
from simulator.lab.conditions import Conditions
from simulator.lab.policy import Entry, Policy, Setting
from simulator.lab.replica import Replica
from tidegate.domain.sample import EndpointSample

_SAME: Final = 1e-7  # seconds between two announcements of one event, by rounding
_FIRST_OUTPUT: Final = 150.0  # expected output tokens before any request has ended
_Z99: Final = 2.326  # standard deviations from the median to the 99th percentile
_LEARN: Final = 0.01  # weight of each ended request in the expected output


class Replay:
    """Runs calls to their ends. `fleet` and the calls hold the outcome."""

    def __init__(self, calls: Several[Call], conditions: Conditions, entry: Entry, seed: int) -> None:
        self.calls, self.now = calls, 0.0
        self._conditions, self._entry = conditions, entry
        self._rng = random.Random(f"replay {seed}")  # noqa: S311
        self.fleet = [Replica(number, _params(conditions, number)) for number in range(conditions.replicas)]
        believed = _believed(conditions)
        self._pickers: list[Policy] = [
            entry.build(self._setting(believed, seed, number)) for number in range(conditions.pickers)
        ]
        self._held: list[deque[Call]] = [deque() for _ in self._pickers]  # the gateways' queues
        self._told = [-math.inf] * len(self._pickers)  # the last message of each, or the next where it is due
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._left = len(calls)
        self._expected_output = _FIRST_OUTPUT

    def _setting(self, believed: EngineParams, seed: int, number: int) -> Setting:
        rng = random.Random(f"picker {seed} {number}")  # noqa: S311
        return Setting(believed, self.fleet, rng, self._conditions.pickers - 1, number)

    def run(self) -> None:
        """To the end of the last call."""
        if self._entry.sampled:
            for replica in self.fleet:
                self._at(self._delay(self._conditions.scrape_ms), self._scrape, replica, 0)
        if self.calls:
            self._at(self.calls[0].arrived_at, self._arrive, 0)
        while self._left:
            self.now, _, act, args = heappop(self._heap)
            act(*args)

    def _at(self, at: float, act: Callable[..., None], *args: Any) -> None:
        self._count += 1  # equal times in the order of asking
        heappush(self._heap, (at, self._count, act, args))

    def _delay(self, bounds_ms: tuple[float, float]) -> float:
        return self._rng.uniform(*bounds_ms) / 1000

    # A call: arrives, is chosen for, reaches its engine.

    def _arrive(self, index: int) -> None:
        if index + 1 < len(self.calls):
            self._at(self.calls[index + 1].arrived_at, self._arrive, index + 1)
        call = self.calls[index]
        call.picker = self._rng.randrange(len(self._pickers))
        call.work = call.estimate(round(self._expected_output), self._conditions.engine.block_size)
        self._held[call.picker].append(call)
        self._place(call.picker)

    def _place(self, picker: int) -> None:
        """Send what waits, in order, as long as there is room."""
        held, policy = self._held[picker], self._pickers[picker]
        while held:
            number = policy.choose(held[0], self.now)
            if number is None:
                return
            self._send(held.popleft(), number, policy)

    def _send(self, call: Call, number: int, policy: Policy) -> None:
        call.replica, call.sent_at = number, self.now
        record = policy.sent(call, number, self.now)
        self._at(self.now + self._delay(self._conditions.dispatch_ms), self._submit, call, self.fleet[number])
        if record is not None and len(self._pickers) > 1:
            self._tell(call.picker, record)

    def _tell(self, sender: int, record: object) -> None:
        """With the next message of the sender; each of the others has it when it has."""
        told = self._told[sender]
        if told < self.now:
            told = self._told[sender] = max(self.now, told + self._conditions.share_gap_ms / 1000)
        for picker, other in enumerate(self._pickers):
            if picker != sender:
                self._at(told + self._share_delay(), self._share, other, record)

    def _share_delay(self) -> float:
        median, p99 = self._conditions.share_ms
        return self._rng.lognormvariate(math.log(median), math.log(p99 / median) / _Z99) / 1000 if median else 0.0

    def _share(self, policy: Policy, record: object) -> None:
        policy.sent_elsewhere(record, self.now)

    def _submit(self, call: Call, replica: Replica) -> None:
        self._happened(replica, replica.submit(call, self.now))

    # An engine: does something by itself, or is read.

    def _wake(self, replica: Replica, at: float) -> None:
        if replica.wake == at:
            replica.wake = None
            self._happened(replica, replica.engine.advance(at))

    def _happened(self, replica: Replica, events: list[Event[Sequence]]) -> None:
        ended = False
        for event in events:
            call = replica.call_of(event)
            policy = self._pickers[call.picker]
            if event.kind is EventKind.FIRST_TOKEN:
                policy.began(call, replica.number, event.at)
            elif event.kind is EventKind.FINISHED:
                self._end(call, policy, replica, event.at)
                ended = True
        self._announce(replica)
        if ended:
            self._retry()

    def _end(self, call: Call, policy: Policy, replica: Replica, at: float) -> None:
        self._left -= 1
        self._expected_output += _LEARN * (call.output_tokens - self._expected_output)
        policy.ended(call, replica.number, at)

    def _announce(self, replica: Replica) -> None:
        change, wake = replica.engine.next_change_time(), replica.wake
        if change is None or (wake is not None and abs(change - wake) < _SAME):
            return
        replica.wake = max(change, self.now)
        self._at(replica.wake, self._wake, replica, replica.wake)

    def _retry(self) -> None:
        for picker, held in enumerate(self._held):
            if held:
                self._place(picker)

    def _scrape(self, replica: Replica, tick: int) -> None:
        conditions, entry = self._conditions, self._entry
        self._happened(replica, replica.engine.advance(self.now))
        sample = replica.sample(self.now)
        self._at(
            self.now + self._delay(entry.delivery_ms or conditions.delivery_ms), self._deliver, replica.number, sample
        )
        begin = (tick + 1) * (entry.sample_ms or conditions.sample_ms) / 1000
        self._at(begin + self._delay(conditions.scrape_ms), self._scrape, replica, tick + 1)

    def _deliver(self, number: int, sample: EndpointSample) -> None:
        for policy in self._pickers:
            policy.sampled(number, sample, self.now)
        self._retry()


def _params(conditions: Conditions, number: int) -> EngineParams:
    engine = conditions.engine
    return engine if number else replace(engine, speed=engine.speed * conditions.slow_replica)


def _believed(conditions: Conditions) -> EngineParams:
    """What pickers take an engine for: everything it does is believed to be faster by the rate's error."""
    cost, factor = conditions.engine.cost, 1 + conditions.rate_error
    wrong = StepCost(
        cost.base_seconds / factor,
        cost.prefill_tokens_per_second * factor,
        cost.seconds_per_sequence / factor,
        cost.seconds_per_context_token / factor,
    )
    return replace(conditions.engine, cost=wrong)

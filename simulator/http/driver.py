"""Runs an engine against the clock: one timer for all requests, and a future for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from simulator.engine import Event, EventKind

T = TypeVar("T", bound=Hashable)

# The loop is woken no more often than this, whatever the time scale: steps that end meanwhile are run together.
_TICK_SECONDS = 0.002
# Streams share this budget of wake-ups, so that hundreds of them get several tokens a chunk and cost little.
_SECONDS_PER_STREAM = 0.00025


class Simulated(Protocol[T]):
    """What the driver needs of an engine; times are simulated seconds."""

    def next_event_time(self) -> float | None:
        """When to look again, or None when idle."""

    def advance(self, to: float) -> list[Event[T]]:
        """Run up to `to`."""

    def abort(self, subject: T, now: float, /) -> None:
        """Drop one."""


class Ticket(Generic[T]):
    """What a handler waits on: the sequences (or the job) of one HTTP request."""

    def __init__(self, subjects: Iterable[T]) -> None:
        self.subjects = tuple(subjects)
        self.pending = set(self.subjects)
        self._news = asyncio.Event()

    async def finished(self) -> None:
        """Wait until all are done."""
        while self.pending:
            await self.woken()

    async def woken(self) -> None:
        """Wait until there is something to see since the last call."""
        await self._news.wait()
        self._news.clear()

    def wake(self) -> None:
        """Let the handler look."""
        self._news.set()


class Driver(Generic[T]):
    """Owns an engine and its clock. Runs in the event loop's thread; starts no task.

    `time_scale` simulated seconds pass in a real one. `observe` sees every event. `version` changes whenever the
    engine's state may have.
    """

    def __init__(self, engine: Simulated[T], time_scale: float, observe: Callable[[Event[T]], None]) -> None:
        self._engine, self._scale, self._observe = engine, time_scale, observe
        self._loop = asyncio.get_running_loop()
        self._origin = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._tickets: dict[T, Ticket[T]] = {}
        self._streams: set[Ticket[T]] = set()
        self._flushed = 0.0
        self.version = 0

    def now(self) -> float:
        """Simulated seconds since start."""
        return (self._loop.time() - self._origin) * self._scale

    def submit(self, enqueue: Callable[[float], Iterable[T]], streaming: bool = False) -> Ticket[T]:
        """Bring the engine to the present and call `enqueue(now)`; a ticket for what that returns."""
        now = self._advance()
        ticket = Ticket(enqueue(now))
        self._tickets.update(dict.fromkeys(ticket.subjects, ticket))
        if streaming:
            self._streams.add(ticket)
        self._arm()
        return ticket

    def close(self, ticket: Ticket[T]) -> None:
        """Forget a ticket; what it still has in the engine is aborted."""
        self._streams.discard(ticket)
        now = self._advance() if ticket.pending else 0.0
        for subject in tuple(ticket.pending):
            del self._tickets[subject]
            self._engine.abort(subject, now)
            self._observe(Event(EventKind.FINISHED, now, subject))
        ticket.pending.clear()

    def refresh(self) -> None:
        """Bring the engine to the present."""
        self._advance()
        self._arm()

    def stop(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _advance(self) -> float:
        now = self.now()
        self.version += 1
        for event in self._engine.advance(now):
            self._observe(event)
            ticket = self._tickets.get(event.subject)
            if ticket is None:
                continue
            if event.kind is EventKind.FINISHED:
                del self._tickets[event.subject]
                ticket.pending.discard(event.subject)
                ticket.wake()
            elif event.kind is EventKind.FIRST_TOKEN and ticket in self._streams:
                ticket.wake()
        return now

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        upcoming = self._engine.next_event_time()
        if upcoming is None:
            self._timer = None
            return
        wanted = self._origin + upcoming / self._scale
        self._timer = self._loop.call_at(max(wanted, self._loop.time() + _TICK_SECONDS), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._advance()
        real = self._loop.time()
        if real - self._flushed >= len(self._streams) * _SECONDS_PER_STREAM:
            self._flushed = real
            for ticket in self._streams:
                ticket.wake()
        self._arm()

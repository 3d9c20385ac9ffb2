"""The limit: it looks into the engines and knows every answer's length.

It sends a call where its first token comes soonest and others are held up least, by the engines' own step costs:

    cost = rest of the step + (tokens before it + own) ÷ rate + wait for room + own ÷ rate × (INTERFERENCE · decoding
           + PRICE · mean backlog of the fleet)

Tokens before it and its own are those that no cache will hold by then.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from simulator.engine import Engine
from simulator.lab.call import Call
from simulator.lab.policy import Plain, Setting
from simulator.lab.replica import Replica

INTERFERENCE: Final = 0.05
PRICE: Final = 3.0


class Oracle(Plain):
    """Greedy: it knows all that is, and not what will come."""

    def __init__(self, setting: Setting) -> None:
        self._books = [_Book(replica) for replica in setting.fleet]

    def choose(self, call: Call, now: float) -> int | None:
        """The replica of the least cost; the lowest number of equals."""
        waits = [book.wait(call, now) for book in self._books]
        mean = sum(waits) / len(waits)
        costs = [wait + book.own(call, mean) for wait, book in zip(waits, self._books, strict=True)]
        return min(range(len(costs)), key=costs.__getitem__)

    def sent(self, call: Call, replica: int, now: float) -> None:  # noqa: ARG002
        """Its blocks are as good as cached for those that come after it."""
        self._books[replica].add(call)

    def began(self, call: Call, replica: int, now: float) -> None:  # noqa: ARG002
        """Its blocks are in the cache itself."""
        self._books[replica].began(call)


class _Book:
    """What was sent to one replica and has not begun there."""

    def __init__(self, replica: Replica) -> None:
        self._engine: Engine = replica.engine
        self._queue: deque[tuple[Call, int]] = deque()
        self._queued_tokens = self._queued_kv = 0
        self._coming: Counter[int] = Counter()

    def add(self, call: Call) -> None:
        tokens = self._uncached(call)
        self._queue.append((call, tokens))
        self._queued_tokens += tokens
        self._queued_kv += call.prompt_tokens + call.output_tokens
        self._coming.update(call.blocks)

    def began(self, call: Call) -> None:
        for block in call.blocks:
            if self._coming[block] > 1:
                self._coming[block] -= 1
            else:
                del self._coming[block]

    def wait(self, call: Call, now: float) -> float:
        """Seconds until the engine has done what comes before the call."""
        self._settle()
        engine = self._engine
        upcoming = engine.next_event_time()
        rest = max(0.0, upcoming - now) if upcoming is not None and not engine.prefill_tokens_left else 0.0
        return rest + self._seconds(self._queued_tokens + engine.prefill_tokens_left) + self._room(call)

    def own(self, call: Call, mean_wait: float) -> float:
        """Seconds of its own prefill, and what others lose by it."""
        seconds = self._seconds(self._uncached(call))
        return seconds * (1 + INTERFERENCE * self._engine.decoding + PRICE * mean_wait)

    def _settle(self) -> None:
        queue = self._queue
        while queue and (sequence := queue[0][0].sequence) is not None and sequence.scheduled_at is not None:
            call, tokens = queue.popleft()
            self._queued_tokens -= tokens
            self._queued_kv -= call.prompt_tokens + call.output_tokens

    def _uncached(self, call: Call) -> int:
        size, pool = self._engine.params.block_size, self._engine.pool
        cached = 0
        for block in call.blocks[: (call.prompt_tokens - 1) // size]:
            if not (pool.holds(block) or block in self._coming):
                break
            cached += size
        return call.prompt_tokens - cached

    def _seconds(self, tokens: int) -> float:
        """Prefill beside what decodes: full steps, each with its base."""
        engine = self._engine
        params, cost = engine.params, engine.params.cost
        beside = cost.base_seconds + engine.running * cost.seconds_per_sequence
        beside += engine.context_tokens * cost.seconds_per_context_token
        steps = tokens / (params.max_num_batched_tokens - engine.decoding)
        return (tokens / cost.prefill_tokens_per_second + steps * beside) / params.speed

    def _room(self, call: Call) -> float:
        """Seconds until enough sequences have ended for the call's prompt and answer to fit."""
        engine = self._engine
        size = engine.params.block_size
        need = (self._queued_kv + call.prompt_tokens + call.output_tokens) // size + 1 - engine.pool.free
        if need <= 0:
            return 0.0
        cost = engine.params.cost
        step = cost.seconds(0, engine.running, engine.context_tokens) / engine.params.speed
        freed = 0
        for left, blocks in sorted(engine.endings()):
            freed += blocks
            if freed >= need:
                return left * step
        return 1e3

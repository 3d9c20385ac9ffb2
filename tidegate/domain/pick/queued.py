"""The ledger of one replica: what we sent there and its engine has not prefilled yet, first come first served.

    dispatched ──▶ [ e1 │ e2 │ e3 … ] ──▶ first token
                     ▲ done: tokens of the head that the engine has worked off, by its rate

Between samples the ledger drains at the replica's rate. A sample corrects it: the engine's counter of prompts says how
many left, `waiting` and `running` bound how many are still there, and what waits beyond our own is others' traffic.
"""

from __future__ import annotations

from collections import deque
from typing import Final

ARRIVAL_MS: Final = 20.0
"""Milliseconds from a dispatch until an engine can have counted it."""
BESIDE_STEP: Final = 8
"""Prompts that may be in prefill beyond those that fit a step by our estimates, which are often too high."""
HEAD_SHARE: Final = 0.95
"""How much of the first prompt may be done while the engine does not count it: it is not finished."""


class Entry:
    """One dispatch: `tokens` to be prefilled, `prompts` that the engine counts for it, `kv_tokens` that it holds."""

    __slots__ = ("at_ms", "ended_ms", "kv_tokens", "prompts", "queued", "tokens")

    def __init__(self, at_ms: float, tokens: float, prompts: int, kv_tokens: int) -> None:
        self.at_ms, self.tokens, self.prompts, self.kv_tokens = at_ms, tokens, prompts, kv_tokens
        self.ended_ms: float | None = None
        self.queued = True


class Queued:
    """Times are in ms, `rate` in tokens/ms. Every sum is at least 0. Not safe across threads."""

    __slots__ = ("_done", "_entries", "_since_ms", "foreign", "free_at_ms", "kv_tokens", "mirrored", "rate", "tokens")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._entries: deque[Entry] = deque()
        self.tokens = 0.0
        self.foreign = self.mirrored = 0.0
        self.kv_tokens = 0
        self._done = 0.0
        self._since_ms = 0.0
        self.free_at_ms = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until all that is queued is prefilled."""
        return max(0.0, self.free_at_ms - now_ms)

    def add(self, entry: Entry, now_ms: float) -> None:
        """One more dispatch."""
        self._settle(now_ms)
        self._entries.append(entry)
        self.tokens += entry.tokens
        self.kv_tokens += entry.kv_tokens
        self._plan()

    def mirror(self, tokens: float, now_ms: float) -> None:
        """What others have presumably sent changes by `tokens`; it is never worked off, but taken back."""
        self._settle(now_ms)
        self.mirrored = max(0.0, self.mirrored + tokens)
        self._plan()

    def ended(self, entry: Entry, now_ms: float) -> None:
        """It needs nothing more. It stays for a moment as an empty entry: the engine may still count it."""
        if entry.queued and entry.ended_ms is None:
            self._settle(now_ms)
            entry.ended_ms = now_ms
            self._empty(entry)
            self._plan()

    def drain(self, rate: float, now_ms: float) -> None:
        """From now on the replica works at `rate`."""
        self._settle(now_ms)
        self.rate = rate
        self._plan()

    def clear(self, before_ms: float, now_ms: float) -> None:
        """The engine began anew: what was sent before `before_ms` is lost."""
        self._settle(now_ms)
        while self._entries and self._entries[0].at_ms < before_ms:
            self._pop()
        self._done = self.foreign = 0.0
        self._plan()

    def counted(self, prompts: int, sampled_at_ms: float, now_ms: float) -> tuple[float, int]:
        """The engine counted `prompts` more by then: (tokens of those that were ours, prompts that were not)."""
        self._settle(now_ms)
        tokens, left = 0.0, prompts
        while left > 0 and self._entries and self._entries[0].at_ms <= sampled_at_ms:
            head = self._entries[0]
            tokens += head.tokens
            if head.prompts > left:
                head.prompts -= left
                self._worked(head)
                left = 0
            else:
                left -= head.prompts
                self._pop()
        self._catch_up(sampled_at_ms, now_ms)
        return tokens, left

    def bounded(
        self,
        waiting: int,
        running: int,
        *,
        settled_before_ms: float,
        sampled_at_ms: float,
        prompt_tokens: float,
        step_tokens: float,
    ) -> None:
        """A sample saw so many. What was sent before `settled_before_ms` and is beyond them is gone: it never arrived,
        or its client hung up.

        Of those that run, no more are in prefill than fit a step of `step_tokens`, and a few; the others decode.
        `prompt_tokens` is what a prompt of others costs.
        """
        settled = self._prompts_until(settled_before_ms)
        most = waiting + min(running, self._prefilling(step_tokens))
        while settled > most:
            settled -= self._entries[0].prompts
            self._pop()
        self._forget_ended(settled_before_ms)
        self.foreign = max(0, waiting - self._prompts_until(sampled_at_ms)) * prompt_tokens
        self._plan()

    def _prompts_until(self, at_ms: float) -> int:
        prompts = 0
        for entry in self._entries:
            if entry.at_ms > at_ms:
                break
            prompts += entry.prompts
        return prompts

    def _prefilling(self, step_tokens: float) -> int:
        prompts, left = BESIDE_STEP, step_tokens
        for entry in self._entries:
            left -= entry.tokens
            if left < 0:
                break
            prompts += entry.prompts
        return prompts

    def _forget_ended(self, before_ms: float) -> None:
        for entry in [e for e in self._entries if e.ended_ms is not None and e.ended_ms <= before_ms]:
            self._entries.remove(entry)
            entry.queued = False

    def worked_off(self, now_ms: float) -> None:
        """For an engine that counts nothing: what must be done by its rate is done."""
        self._settle(now_ms)
        while self._entries and self._done >= self._entries[0].tokens:
            self._pop()
        self._plan()

    def _catch_up(self, sampled_at_ms: float, now_ms: float) -> None:
        """Let what is done of the head agree with the sample: not finished then, and some more since."""
        since = self.rate * max(0.0, now_ms - sampled_at_ms)
        head = self._entries[0].tokens if self._entries and self._entries[0].at_ms <= sampled_at_ms else 0.0
        then = min(max(0.0, self._done - since), HEAD_SHARE * head)
        self._done = min(self.tokens, then + since)
        self._plan()

    def _settle(self, now_ms: float) -> None:
        if now_ms > self._since_ms:
            self._done = min(self.tokens, self._done + self.rate * (now_ms - self._since_ms))
            self._since_ms = now_ms

    def _plan(self) -> None:
        left = max(0.0, self.tokens - self._done) + self.foreign + self.mirrored
        self.free_at_ms = self._since_ms + left / self.rate

    def _pop(self) -> None:
        entry = self._entries.popleft()
        entry.queued = False
        self._worked(entry)

    def _worked(self, entry: Entry) -> None:
        self._done = max(0.0, self._done - entry.tokens)
        self._empty(entry)

    def _empty(self, entry: Entry) -> None:
        self.tokens = max(0.0, self.tokens - entry.tokens) if len(self._entries) else 0.0
        self.kv_tokens -= entry.kv_tokens
        entry.tokens, entry.kv_tokens = 0.0, 0
        self._done = min(self._done, self.tokens)

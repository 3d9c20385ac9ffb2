"""One replica in the picker's books: what it last said, what we sent it, and what follows for the next pick.

What a pick reads of every replica are plain fields, computed when something happens to it, since picks are far more
frequent than samples and look at all replicas.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from tidegate.domain.pick.hits import Hits
from tidegate.domain.pick.queued import ARRIVAL_MS, Entry, Queued
from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.speed import Speed, model_rate
from tidegate.domain.sample import EndpointSample

FIRST_PROMPT_TOKENS: Final = 1_000.0
"""What a prompt of others costs until the engine's counters tell."""
SOME_ADAPTERS: Final = 8
"""Adapters that a replica is taken to hold when it does not tell."""
GROWTH: Final = 0.5
"""The part of its answer that a running sequence has before it, on average."""
OUTPUT_SHARE: Final = 0.1
NEVER: Final = -math.inf


class Replica:
    """Fields that picks read, and their meaning where the name does not say it:

    slot            its bit in the prefix index
    sound_until_ms  open, fresh and making progress until then
    free_kv         KV tokens, infinite where unknown
    beside          seconds that all who are there add to a step
    delay           seconds that all who run wait for a token of prefill
    """

    __slots__ = (
        "adapters",
        "address",
        "beside",
        "block",
        "capacity",
        "changed_ms",
        "context",
        "delay",
        "destination",
        "free_kv",
        "fresh_until_ms",
        "hits",
        "ms_per_token",
        "open",
        "output_tokens",
        "priority",
        "prompt_tokens",
        "queued",
        "quiet_ms",
        "running",
        "sample",
        "serving_since_ms",
        "slot",
        "sound_until_ms",
        "speed",
        "standing",
        "telling",
        "weight",
    )

    def __init__(self, address: str, slot: int, settings: PickSettings) -> None:
        self.address, self.slot = address, slot
        self.destination: str | None = None
        self.priority = 0
        self.weight: int | None = None
        self.sample: EndpointSample | None = None
        self.queued = Queued(model_rate(settings, 0, 0.0))
        self.speed = Speed()
        self.open = False
        self.fresh_until_ms = NEVER
        self.sound_until_ms = NEVER
        self.standing = False
        self.quiet_ms = 0.0
        self.changed_ms = NEVER
        self.serving_since_ms = NEVER
        self.free_kv = math.inf
        self.beside = 0.0
        self.delay = 0.0
        self.capacity: int | None = None
        self.block = 1
        self.running = 0
        self.context = 0.0
        self.prompt_tokens = FIRST_PROMPT_TOKENS
        self.output_tokens = 0.0
        self.telling = False
        self.ms_per_token = 1 / self.queued.rate
        self.hits = Hits()
        self.adapters: OrderedDict[str, None] = OrderedDict()

    def closed(self, now_ms: float) -> bool:
        """Whether it is known to take nothing. A stale sample proves nothing."""
        sample = self.sample
        shut = sample is not None and self.fresh_until_ms >= now_ms and not sample.status.takes_traffic
        return shut or self.weight == 0

    def look(self) -> None:
        """Whether it may be named at all while its sample is fresh."""
        sample = self.sample
        serving = sample is not None and sample.status.takes_traffic
        self.open = serving and self.weight != 0 and self.destination is not None
        self.sound_until_ms = NEVER
        if self.open and sample is not None and not self.standing:
            self.sound_until_ms = min(self.fresh_until_ms, sample.sampled_at_ms + self.quiet_ms)

    def has(self, adapter: str) -> None:
        """The adapter is loaded, or about to be; others make room for it."""
        self.adapters[adapter] = None
        self.adapters.move_to_end(adapter)
        most = (self.sample.max_loras if self.sample else None) or SOME_ADAPTERS
        while len(self.adapters) > most:
            self.adapters.popitem(last=False)

    def sent(self, entry: Entry, now_ms: float, settings: PickSettings) -> None:
        """A dispatch: it is queued, and its answer says how long answers here are."""
        self.queued.add(entry, now_ms)
        self.free_kv -= entry.kv_tokens
        self.beside += settings.sequence_seconds * entry.prompts + settings.context_seconds * entry.kv_tokens
        output = max(0.0, entry.kv_tokens - entry.tokens) / max(1, entry.prompts)
        self.output_tokens += OUTPUT_SHARE * (output - self.output_tokens) if self.output_tokens else output

    def sampled(self, sample: EndpointSample, now_ms: float, settings: PickSettings, ttl_ms: float) -> bool:
        """Take a sample in, at least as new as the last one. Whether the engine began anew since."""
        last, self.sample = self.sample, sample
        self.fresh_until_ms = sample.sampled_at_ms + ttl_ms
        self._follow_life(last, sample, now_ms, settings)
        anew = self._reconcile(last, sample, now_ms, settings)
        self._measure(sample)
        self.pace(settings, now_ms)
        self.reserve()
        self.look()
        return anew

    def pace(self, settings: PickSettings, now_ms: float) -> None:
        """The rate at which it works, and what decoding beside it costs, by what it last said."""
        rate = model_rate(settings, self.running, self.context) * self.speed.relative
        self.ms_per_token = 1 / rate
        self.delay = self.running / rate / 1000
        self.queued.drain(rate, now_ms)
        sequences, tokens = self.running + len(self.queued), self.context + self.queued.kv_tokens
        self.beside = settings.sequence_seconds * sequences + settings.context_seconds * tokens

    def reserve(self) -> None:
        """Free KV tokens: what the engine says, less what is queued and what running answers have yet to fill."""
        sample = self.sample
        if self.capacity is None or sample is None or sample.kv_used_ratio is None:
            self.free_kv = math.inf
        else:
            coming = self.queued.kv_tokens + GROWTH * self.running * self.output_tokens
            self.free_kv = self.capacity * (1 - sample.kv_used_ratio) - coming

    def _follow_life(
        self, last: EndpointSample | None, sample: EndpointSample, now_ms: float, settings: PickSettings
    ) -> None:
        if sample.status.takes_traffic and (last is None or not last.status.takes_traffic):
            self.serving_since_ms = now_ms
        if last is None or _progress(last) != _progress(sample) or not (sample.running or sample.waiting):
            self.changed_ms = sample.sampled_at_ms
        self.quiet_ms = 1000 * settings.hung_seconds
        self.standing = sample.sampled_at_ms - self.changed_ms >= self.quiet_ms

    def _reconcile(
        self, last: EndpointSample | None, sample: EndpointSample, now_ms: float, settings: PickSettings
    ) -> bool:
        at_ms, queued = float(sample.sampled_at_ms), self.queued
        running, waiting, total = sample.running, sample.waiting, sample.prompts_total
        before = last.prompts_total if last is not None else None
        anew = total is not None and before is not None and total < before
        if anew:
            queued.clear(at_ms - ARRIVAL_MS, now_ms)
            self.speed.idle()
        elif last is not None and total is not None and before is not None:
            self._learn_prompt(last, sample)
            done, foreign = queued.counted(total - before, at_ms, now_ms)
            self._learn_speed(last, sample, done, foreign, settings)
        elif total is None:
            queued.worked_off(now_ms)
        if running is not None and waiting is not None:
            settled_ms = at_ms - ARRIVAL_MS - settings.step_tokens * self.ms_per_token
            queued.bounded(
                waiting,
                running,
                settled_before_ms=settled_ms,
                sampled_at_ms=at_ms,
                prompt_tokens=self.prompt_tokens,
                step_tokens=settings.step_tokens,
            )
        return anew

    def _learn_prompt(self, last: EndpointSample, sample: EndpointSample) -> None:
        """What a prompt costs here, in tokens that no cache holds."""
        if None in {last.prompt_tokens_total, sample.prompt_tokens_total}:
            return
        prompts = (sample.prompts_total or 0) - (last.prompts_total or 0)
        tokens = (sample.prompt_tokens_total or 0) - (last.prompt_tokens_total or 0)
        if prompts > 0 and tokens >= 0:
            missed = 1 - (sample.prefix_hit_ratio or 0.0)
            share = min(0.5, prompts * 0.02)
            self.prompt_tokens += share * (tokens / prompts * missed - self.prompt_tokens)

    def _learn_speed(
        self, last: EndpointSample, sample: EndpointSample, done: float, foreign: int, settings: PickSettings
    ) -> None:
        if foreign or not last.waiting or not sample.waiting:
            self.speed.idle()
            return
        model = model_rate(settings, self.running, self.context)
        self.speed.busy(done, sample.sampled_at_ms - last.sampled_at_ms, model, settings.step_tokens)

    def _measure(self, sample: EndpointSample) -> None:
        self.capacity = sample.kv_capacity_tokens
        self.block = sample.block_size or 1
        self.running = sample.running or 0
        self.telling = sample.waiting is not None
        self.context = (sample.kv_used_ratio or 0.0) * (self.capacity or 0)
        for adapter in sample.loras:
            self.has(adapter)


def _progress(sample: EndpointSample) -> tuple[object, ...]:
    """What moves while an engine works. Not what looks back over a minute: that moves by itself."""
    return (
        sample.prompts_total,
        sample.prompt_tokens_total,
        sample.running,
        sample.kv_used_ratio,
        sample.generation_tokens_total,
        sample.requests_finished_total,
    )

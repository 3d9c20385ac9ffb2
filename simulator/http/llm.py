"""A language model's engine as the API modules see it: prompts in, texts that grow with time out."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import time_ns
from types import TracebackType
from typing import NamedTuple, Self
from zlib import crc32

from simulator.engine import Engine, EngineParams, FinishReason, Output, OutputLengths, Request, Sequence
from simulator.http.driver import Driver, Ticket
from simulator.http.errors import bad_request, unknown_model
from simulator.http.text import BYTES_PER_TOKEN, Prompt, Words, chain
from simulator.http.traces import RequestTraces
from simulator.http.vllm_stats import VllmStats


@dataclass(frozen=True, slots=True)
class Ask:
    """What one HTTP request asks for: `n` texts from each prompt. Without `max_tokens` a length is drawn."""

    prompts: list[Prompt]
    n: int = 1
    max_tokens: int | None = None
    stream: bool = False


class Piece(NamedTuple):
    """Text that one choice gained, and why it ended if it did."""

    choice: int
    text: str
    finish: FinishReason | None


class Generation:
    """A request in the engine. Leaving its `async with` aborts what is unfinished and frees its blocks."""

    def __init__(self, llm: Llm, ask: Ask, ticket: Ticket[Sequence], texts: list[str]) -> None:
        self._llm, self._ask, self._ticket, self.texts = llm, ask, ticket, texts
        self._began_ns = time_ns()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ticket.pending and self._ask.max_tokens != 0:
            longest = max(sequence.generated for sequence in self.sequences)
            self._llm.stats.answered(self._ask.n, self._llm.limit(self._ask), longest)
        if not self._ticket.pending and self._llm.traces is not None:
            limit = self._llm.limit(self._ask)
            self._llm.traces.answered(self.sequences, self._began_ns, self.prompt_tokens, limit, self._ask.n)
        self._llm.driver.close(self._ticket)

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        """One for each choice: prompt by prompt, `n` of each."""
        return self._ticket.subjects

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts, each counted once."""
        return sum(prompt.tokens for prompt in self._ask.prompts)

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the prefix cache supplied to the first choice of each prompt."""
        return sum(sequence.cached_tokens for sequence in self.sequences[:: self._ask.n])

    @property
    def completion_tokens(self) -> int:
        """Tokens generated so far."""
        return sum(self._llm.engine.generated(sequence) for sequence in self.sequences)

    def finish(self, index: int) -> FinishReason | None:
        """Why that choice ended, or None while it has not."""
        return self.sequences[index].finish_reason

    async def finished(self) -> None:
        """Wait for all choices."""
        await self._ticket.finished()

    async def pieces(self) -> AsyncIterator[Piece]:
        """Text as it comes, until every choice has ended."""
        sent = [0] * len(self.sequences)
        growing = set(range(len(self.sequences)))
        while growing:
            await self._ticket.woken()
            for index in sorted(growing):
                sequence = self.sequences[index]
                tokens, finish = self._llm.engine.generated(sequence), sequence.finish_reason
                if finish is not None:
                    growing.discard(index)
                if tokens > sent[index] or finish is not None:
                    begin, sent[index] = sent[index] * BYTES_PER_TOKEN, tokens
                    yield Piece(index, self.texts[index][begin : tokens * BYTES_PER_TOKEN], finish)


class Llm:
    """Engine, clock, words and statistics of one replica. `models` are the names served, the first in metrics."""

    def __init__(self, params: EngineParams, models: list[str], seed: int, time_scale: float) -> None:
        self.params, self.models, self.seed = params, models, seed
        self.engine = Engine(params)
        self.stats = VllmStats(self.engine)
        self.driver: Driver[Sequence] = Driver(self.engine, time_scale, self.stats.observe)
        self.traces: RequestTraces | None = None
        self._words = Words(seed)
        self._lengths = OutputLengths(random.Random(seed))  # noqa: S311 - a model's randomness, not a secret

    def check_model(self, model: str | None) -> str:
        """The model's name, the first one's without any. Raises ApiError 404."""
        if model is not None and model not in self.models:
            raise unknown_model(model)
        return model or self.models[0]

    def limit(self, ask: Ask) -> int:
        """The most tokens that a choice of `ask` may have."""
        room = self.params.max_model_len - max(prompt.tokens for prompt in ask.prompts)
        return room if ask.max_tokens is None else ask.max_tokens

    def generate(self, ask: Ask) -> Generation:
        """Queue a request. Raises ApiError 400 when it exceeds the context length."""
        self._check_length(ask)
        texts: list[str] = []
        requests = [self._request(prompt, ask, texts) for prompt in ask.prompts]

        def enqueue(now: float) -> list[Sequence]:
            return [sequence for request in requests for sequence in self.engine.submit(request, now)]

        return Generation(self, ask, self.driver.submit(enqueue, ask.stream), texts)

    def encode(self, prompts: list[Prompt]) -> Generation:
        """Queue prompts of which only the prefill is wanted. Raises ApiError 400 when one is too long."""
        return self.generate(Ask(prompts, max_tokens=0))

    def _check_length(self, ask: Ask) -> None:
        most, given = self.params.max_model_len, max(prompt.tokens for prompt in ask.prompts)
        wanted = 1 if ask.max_tokens is None else ask.max_tokens
        if given + wanted > most:
            raise bad_request(
                f"This model's maximum context length is {most} tokens. However, your request has {given} input "
                f"tokens and asks for at least {wanted} output tokens. Please reduce the length of either."
            )

    def _request(self, prompt: Prompt, ask: Ask, texts: list[str]) -> Request:
        size, start = self.params.block_size, crc32(prompt.data)
        outputs = [self._output(ask.max_tokens, self.params.max_model_len - prompt.tokens) for _ in range(ask.n)]
        answers = [self._words.text(start + 97 * choice, o.tokens) for choice, o in enumerate(outputs)]
        texts += answers
        # An answer is cached as well, for the next turn of its conversation; of several, none is.
        hashes = chain(prompt.data + (answers[0].encode() if ask.n == 1 else b""), size)
        full = len(prompt.data) // (size * BYTES_PER_TOKEN)
        outputs[0] = outputs[0]._replace(block_hashes=tuple(hashes[full:]))
        return Request(prompt.tokens, tuple(outputs), tuple(hashes[:full]))

    def _output(self, limit: int | None, room: int) -> Output:
        if limit is not None:
            return Output(limit, FinishReason.LENGTH if limit else FinishReason.STOP)
        drawn = self._lengths.draw()
        return Output(drawn, FinishReason.STOP) if drawn <= room else Output(room, FinishReason.LENGTH)

"""What goes into an engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class FinishReason(StrEnum):
    """Why a sequence ended, in vLLM's words."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Output(NamedTuple):
    """One sequence to generate: its length, how it ends, and the hashes of the blocks that it fills.

    `block_hashes` continues the request's chain over the tokens generated; empty when they are never asked for
    again. With 0 tokens the sequence ends with its prefill, as an embedding does.
    """

    tokens: int
    finish: FinishReason = FinishReason.STOP
    block_hashes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and the sequences to generate from it.

    `block_hashes` are chained: equal hash means equal whole prefix; one for each full block of the prompt at most.
    """

    prompt_tokens: int
    outputs: tuple[Output, ...] = (Output(1),)
    block_hashes: tuple[int, ...] = ()


class State(IntEnum):
    """Where a sequence is."""

    WAITING = 0
    PREFILLING = 1
    DECODING = 2
    FINISHED = 3


class EventKind(IntEnum):
    """What `advance` reports."""

    FIRST_TOKEN = 0
    FINISHED = 1
    PREEMPTED = 2


class Event(NamedTuple, Generic[T]):
    """Something that happened to `subject` at simulated second `at`."""

    kind: EventKind
    at: float
    subject: T


class Sequence:
    """One sequence in an engine; a handle for the caller, who reads and never writes.

    Times are simulated seconds, None until they happen. `cached_tokens` are the prompt tokens that the prefix
    cache supplied at first admission.
    """

    __slots__ = (
        "arrived_at",
        "cached_tokens",
        "committed",
        "computed",
        "finish_reason",
        "finish_step",
        "finished_at",
        "first_token_at",
        "generated",
        "grow_step",
        "last_token_at",
        "output",
        "preemptions",
        "private",
        "refs",
        "request",
        "scheduled_at",
        "since",
        "state",
    )  # fmt: skip

    def __init__(self, request: Request, output: Output, arrived_at: float) -> None:
        self.request, self.output, self.arrived_at = request, output, arrived_at
        self.state = State.WAITING
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.finished_at: float | None = None
        self.finish_reason: FinishReason | None = None
        self.cached_tokens = 0
        self.preemptions = 0
        # The engine's own books. While decoding, `generated` and `computed` are as of step `since`.
        self.generated = 0
        self.computed = 0
        self.since = 0
        self.finish_step = -1
        self.grow_step = -1
        self.committed = 0
        self.refs: list[int] = []
        self.private = 0

    @property
    def blocks(self) -> int:
        """KV blocks held."""
        return len(self.refs) + self.private

    @property
    def target(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return self.request.prompt_tokens + self.generated

    def hash_at(self, block: int) -> int | None:
        """The chained hash of the block at that index, or None where it is unknown."""
        prompt = self.request.block_hashes
        if block < len(prompt):
            return prompt[block]
        rest = self.output.block_hashes
        return rest[block - len(prompt)] if block - len(prompt) < len(rest) else None

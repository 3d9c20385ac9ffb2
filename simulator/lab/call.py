"""One request of a replay, from its arrival to its end."""

from __future__ import annotations

from simulator.engine import Output, Request, Sequence
from tidegate.domain.pick.work import Work


class Call:
    """Times are simulated seconds, None until they happen. `work` is what pickers are told of it."""

    __slots__ = (
        "arrived_at",
        "blocks",
        "cached_tokens",
        "finished_at",
        "first_token_at",
        "number",
        "output_tokens",
        "picker",
        "preemptions",
        "prompt_error",
        "prompt_tokens",
        "replica",
        "sent_at",
        "sequence",
        "work",
    )  # fmt: skip

    def __init__(
        self, number: int, arrived_at: float, prompt_tokens: int, output_tokens: int, blocks: tuple[int, ...]
    ) -> None:
        self.number, self.arrived_at = number, arrived_at
        self.prompt_tokens, self.output_tokens, self.blocks = prompt_tokens, output_tokens, blocks
        self.prompt_error = 1.0  # what the picker's estimate of the prompt is multiplied by
        self.picker = 0
        self.work = Work(prompt_tokens=prompt_tokens)
        self.replica: int | None = None
        self.sequence: Sequence | None = None
        self.sent_at: float | None = None
        self.first_token_at: float | None = None
        self.finished_at: float | None = None
        self.cached_tokens = 0
        self.preemptions = 0

    def request(self, block_tokens: int) -> Request:
        """As the engine gets it: whole blocks alone have a hash."""
        return Request(
            self.prompt_tokens, (Output(self.output_tokens),), self.blocks[: self.prompt_tokens // block_tokens]
        )

    def estimate(self, output_tokens: int, block_tokens: int) -> Work:
        """What a picker knows: a prompt whose tokens it estimates, and an output length that is usual."""
        prompt = max(1, round(self.prompt_tokens * self.prompt_error))
        each = block_tokens * self.prompt_error
        ends = tuple(min(prompt, round(each * count)) for count in range(1, len(self.blocks) + 1))
        return Work(prompt_tokens=prompt, output_tokens=output_tokens, marks=self.blocks, ends=ends)

"""What one engine is: its sizes and what a step costs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of one step: base + prefill tokens / rate + sequences and context tokens at a price each.

    The defaults are those of an 8-billion-parameter model on one data-centre GPU.
    """

    base_seconds: float = 0.012
    prefill_tokens_per_second: float = 14_000.0
    seconds_per_sequence: float = 60e-6
    seconds_per_context_token: float = 22e-9

    def seconds(self, prefill_tokens: int, sequences: int, context_tokens: int) -> float:
        """The duration of a step at speed 1."""
        return (
            self.base_seconds
            + prefill_tokens / self.prefill_tokens_per_second
            + sequences * self.seconds_per_sequence
            + context_tokens * self.seconds_per_context_token
        )


@dataclass(frozen=True, slots=True)
class EngineParams:
    """Sizes of a replica. One of `kv_blocks` is the null block, as in vLLM: it holds no tokens.

    `speed` divides every step's duration. Raises ValueError where no engine could run: a step that cannot hold
    one token of every sequence, or a cache that cannot hold one sequence of `max_model_len` tokens.
    """

    kv_blocks: int = 4096
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 4096
    max_model_len: int = 8192
    speed: float = 1.0
    prefix_caching: bool = True
    cost: StepCost = field(default_factory=StepCost)

    def __post_init__(self) -> None:
        if min(self.block_size, self.max_num_seqs, self.max_model_len) < 1 or self.speed <= 0:
            raise ValueError("block_size, max_num_seqs and max_model_len start at 1, speed is above 0")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens must be at least max_num_seqs")
        if self.kv_tokens < self.max_model_len:
            raise ValueError(
                f"max_model_len {self.max_model_len} does not fit into {self.kv_tokens} tokens of KV cache; "
                "give more kv_blocks"
            )

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return (self.kv_blocks - 1) * self.block_size

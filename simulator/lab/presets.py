"""What the engines of a replay are. Figures and their sources: docs/lab.md.

8b  an 8-billion-parameter model in 8 bit on one 80 GB data-centre GPU: 14,000 prompt tokens/s in chunks of 4,096,
    12 ms a step, 60 µs a sequence, 22 ns a context token, 1,900 cache blocks of 512 tokens
70b a 70-billion-parameter model in 16 bit on four such GPUs: 140 GB of weights in four parts of 35 GB at 3.35 TB/s
    are 10.5 ms a step, and 160 all-reduces about 8 ms more; 8,000 prompt tokens/s; 327,680 bytes a token of KV,
    a quarter of them a GPU (24 ns), in the 147 GB that 90 % of the memory leaves
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simulator.engine import EngineParams, StepCost
from simulator.lab.trace import BLOCK_TOKENS

ENGINES: Final[Mapping[str, EngineParams]] = {
    "8b": EngineParams(
        kv_blocks=1901,
        block_size=BLOCK_TOKENS,
        max_num_seqs=256,
        max_num_batched_tokens=4096,
        max_model_len=131_072,
        cost=StepCost(0.012, 14_000.0, 60e-6, 22e-9),
    ),
    "70b": EngineParams(
        kv_blocks=876,
        block_size=BLOCK_TOKENS,
        max_num_seqs=256,
        max_num_batched_tokens=4096,
        max_model_len=131_072,
        cost=StepCost(0.0185, 8_000.0, 100e-6, 24e-9),
    ),
}

"""What one request asks of the replica that serves it."""

from __future__ import annotations

import msgspec


class Work(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request in the units that engines work in. Estimates, all at least 0.

    A struct, since one is made for each request and a frozen dataclass takes five times as long.

    prompt_tokens  all prompts of the request together
    output_tokens  expected of one sequence: its limit, or what its class usually produces where that is less
    sequences      that the engine runs at once for it, at least 1
    marks, ends    chained fingerprints of the prompt's parts, and the tokens of the prompt up to the end of each;
                   equally long, `ends` rising. Two requests share the prompt up to the last mark they have in common
    adapter        LoRA adapter that has to be loaded, else None
    session        key that ties the requests of one conversation or user to a replica, else None
    pixel_steps    pixels × denoising steps × pictures of a diffusion request, else 0
    """

    prompt_tokens: int
    output_tokens: int = 0
    sequences: int = 1
    marks: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    adapter: str | None = None
    session: str | None = None
    pixel_steps: float = 0.0

    @property
    def kv_tokens(self) -> int:
        """Tokens that the request holds in the KV cache at its end."""
        return self.prompt_tokens + self.sequences * self.output_tokens

"""What a request asks of a replica: KV tokens to fit, tokens to prefill."""

from __future__ import annotations

from tidegate.domain.pick.settings import PickSettings
from tidegate.domain.pick.work import Work


def demand_tokens(work: Work, block: int) -> int:
    """KV tokens in whole blocks: ceil(prompt ÷ block) + sequences × ceil(output ÷ block), × block."""
    return block * (-(-work.prompt_tokens // block) + work.sequences * -(-work.output_tokens // block))


def prefill_tokens(work: Work, cached: int, settings: PickSettings) -> float:
    """Tokens to compute, at least 1: the last one is never cached.

    A diffusion request counts as the tokens that would take as long: pixel-steps ÷ their rate × the prefill rate.
    """
    if work.pixel_steps:
        return work.pixel_steps / settings.pixel_steps_per_second * settings.prefill_tokens_per_second
    return float(max(1, work.prompt_tokens - cached))

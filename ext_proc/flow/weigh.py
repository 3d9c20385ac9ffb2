"""What a request asks of a replica, estimated from what was read of it."""

from __future__ import annotations

from typing import Final, Protocol

from tidegate.domain.flow.settings import SessionKey
from tidegate.domain.pick.work import Work
from tidegate.domain.request import NO_AFFINITY, ImageDemand, RequestInfo
from tidegate.domain.tokens import estimate_tokens

FIRST_OUTPUT_TOKENS: Final = 256
"""Tokens of an answer until something is learned."""
SIDE_PIXELS: Final = 1024
STEPS: Final = 30
"""A picture whose request does not say: what diffusion servers make by default."""
PIXEL_STEPS_A_TOKEN: Final = 1e6
"""Brings the work of pictures near that of tokens; only the ratio within a cluster counts."""


class Outputs(Protocol):
    """What is known of the length of answers."""

    def expected(self, cluster: str, info: RequestInfo) -> int:
        """Tokens that one sequence of this request's answer will have, at least 0, before its limit is looked at."""

    def dispatched(self, cluster: str, info: RequestInfo) -> None:
        """The request went there."""


class FirstGuess:
    """Nothing is known."""

    def expected(self, _cluster: str, _info: RequestInfo) -> int:
        """FIRST_OUTPUT_TOKENS."""
        return FIRST_OUTPUT_TOKENS

    def dispatched(self, _cluster: str, _info: RequestInfo) -> None:
        """Nothing is learned."""


def work_of(
    info: RequestInfo, ratio: float, expected_tokens: int, adapter: str | None, session: str = SessionKey.AUTO
) -> Work:
    """`ratio` is in characters a token, `expected_tokens` what an answer of its kind usually has."""
    return Work(
        prompt_tokens=estimate_tokens(info, ratio),
        output_tokens=_output(info, expected_tokens),
        sequences=info.num_sequences,
        marks=info.prefix,
        ends=info.prefix_ids or tuple([-int(-end // ratio) for end in info.prefix_chars]),  # `tokens_of` each
        adapter=adapter,
        session=session_of(info, session),
        pixel_steps=0.0 if info.image is None else _pixel_steps(info.image),
    )


def session_of(info: RequestInfo, key: str) -> str | None:
    """What ties this request to earlier ones by a SessionKey; AUTO takes the narrowest that there is."""
    affinity, user = info.affinity, info.user
    if key == SessionKey.AUTO:
        if affinity is NO_AFFINITY or (affinity.session_id is None and affinity.prompt_cache_key is None):
            return user
        return affinity.prompt_cache_key if affinity.session_id is None else affinity.session_id
    if key == SessionKey.SESSION_ID:
        return affinity.session_id
    if key == SessionKey.PROMPT_CACHE_KEY:
        return affinity.prompt_cache_key
    return user if key == SessionKey.USER else None


def cost_of(work: Work) -> float:
    """Its share in a queue: tokens, at least 1, or what pictures take in their place."""
    return max(1.0, work.pixel_steps / PIXEL_STEPS_A_TOKEN, float(work.kv_tokens))


def _output(info: RequestInfo, expected: int) -> int:
    if not info.generation:
        return 0
    return expected if info.max_output_tokens is None else min(info.max_output_tokens, expected)


def _pixel_steps(image: ImageDemand) -> float:
    pixels = (image.width or SIDE_PIXELS) * (image.height or SIDE_PIXELS)
    return float(pixels) * (image.steps or STEPS) * image.images

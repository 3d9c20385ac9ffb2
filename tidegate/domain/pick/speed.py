"""How fast a replica prefills: a model of a step, and one factor a replica that its own counters teach.

    rate = step_tokens ÷ (step_tokens ÷ prefill rate + base + running · t_seq + context · t_ctx) × speed

Only windows in which requests waited all the time teach anything: then every step was full.
"""

from __future__ import annotations

from typing import Final

from tidegate.domain.pick.settings import PickSettings

LEAST_SPEED: Final = 1 / 32
MOST_SPEED: Final = 32.0
WINDOW_MS: Final = 2_000.0
WINDOW_STEPS: Final = 2.0
"""What a window needs: so much time, and so many full steps of tokens."""
STEP_FACTOR: Final = 2.0
"""A window moves the factor by at most this."""
APART: Final = 1.3
"""Replicas whose factors differ by less are alike: a difference that is only noise would draw all idle traffic."""
LEAST_SHARE: Final = 0.2
"""A window's share, once a few were seen: the first counts half."""


class Speed:
    """The factor of one replica, 1 = as the settings say. `fleet` is what a replica that taught nothing goes by."""

    __slots__ = ("_begun", "_expected_ms", "_tokens", "_took_ms", "factor", "fleet", "windows")

    def __init__(self) -> None:
        self.factor = self.fleet = 1.0
        self.windows = 0
        self._begun = False
        self._expected_ms = self._took_ms = self._tokens = 0.0

    def busy(self, tokens: float, took_ms: float, model_rate: float, step_tokens: int) -> bool:
        """In `took_ms`, requests waiting throughout, `tokens` were done. Whether the factor moved."""
        if not self._begun:
            self._begun = tokens > 0  # what was done of this prompt before is not in the window
            return False
        self._tokens += tokens
        self._took_ms += took_ms
        self._expected_ms += tokens / model_rate
        if self._took_ms < WINDOW_MS or self._tokens < WINDOW_STEPS * step_tokens or not tokens:
            return False
        self._learn(self._expected_ms / self._took_ms)
        self._reset()
        return True

    @property
    def relative(self) -> float:
        """The factor to go by: the fleet's, unless this replica clearly differs from it."""
        return self.fleet if 1 / APART < self.factor / self.fleet < APART else self.factor

    def idle(self) -> None:
        """The window ends without a word."""
        self._begun = False
        self._reset()

    def _reset(self) -> None:
        self._expected_ms = self._took_ms = self._tokens = 0.0

    def _learn(self, seen: float) -> None:
        self.windows += 1
        share = max(LEAST_SHARE, 1 / (1 + self.windows))
        near = min(max(seen / self.factor, 1 / STEP_FACTOR), STEP_FACTOR)
        self.factor = min(max(self.factor * near**share, LEAST_SPEED), MOST_SPEED)


def model_rate(settings: PickSettings, running: int, context_tokens: float) -> float:
    """Tokens a ms that the settings expect of full steps beside so much decoding."""
    step_ms = 1000 * (
        settings.step_tokens / settings.prefill_tokens_per_second
        + settings.step_seconds
        + running * settings.sequence_seconds
        + context_tokens * settings.context_seconds
    )
    return settings.step_tokens / step_ms

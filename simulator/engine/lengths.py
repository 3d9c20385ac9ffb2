"""How long answers are when nobody limits them."""

from __future__ import annotations

import math
import random


class OutputLengths:
    """Draws output lengths in tokens: log-normal, as conversation traces show, with its median as given."""

    def __init__(self, rng: random.Random, median_tokens: float = 150.0, sigma: float = 0.7) -> None:
        self._rng, self._mu, self._sigma = rng, math.log(median_tokens), sigma

    def draw(self) -> int:
        """The length of one answer, at least 1 token."""
        return max(1, round(self._rng.lognormvariate(self._mu, self._sigma)))

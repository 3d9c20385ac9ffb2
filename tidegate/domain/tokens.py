"""Tokens of a prompt from its characters, by a ratio that is learned from the engines' own counters.

    what this gateway sent        prompts, characters          ─┐
                                                                ├─▶ characters a token, in [1, 8]
    what the engines counted      prompts, prompt tokens       ─┘

A window opens, both sides count, and it closes once each saw enough prompts and both saw the same number. Traffic
that reached the engines past the gateway makes their number the greater one, and the window is dropped. Engines
count every prompt token, also those that their prefix cache supplied, so caching changes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidegate.domain.request import RequestInfo

FIRST_RATIO: Final = 4.0
LEAST_RATIO: Final = 1.0
MOST_RATIO: Final = 8.0

ENOUGH_PROMPTS: Final = 16
"""Prompts that a window needs: fewer say more about one request than about the model."""
APART_RATIO: Final = 0.1
"""How far apart the two numbers of prompts may be, as a part of the greater: what is queued is not counted yet."""
FOREIGN_PROMPTS: Final = 16
"""Prompts beyond APART_RATIO that only the engines saw, from which on a window holds traffic of others."""
UNCLEAR_RATIO: Final = 0.05
"""The part of a window's prompts of which characters do not tell the tokens: media, several sequences."""
LONGEST_LOOKS: Final = 600
"""Looks after which a window that did not close is dropped."""
STEP_FACTOR: Final = 2.0
"""A window moves the ratio by at most this factor: one odd window does little."""
LEAST_SHARE: Final = 0.2
"""A window's share in the ratio, once a few were seen; the first counts whole, the second half, and so on."""
PLAUSIBLE: Final = (0.5, 16.0)
"""Windows outside say that something else was counted."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What the gateway sent to a cluster since it started: cumulative.

    `chars` are code points of text and bytes of tools, `exact_tokens` tokens given as ids, `unclear` prompts of
    which neither tells the tokens.
    """

    prompts: int = 0
    chars: int = 0
    exact_tokens: int = 0
    unclear: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            self.prompts + other.prompts,
            self.chars + other.chars,
            self.exact_tokens + other.exact_tokens,
            self.unclear + other.unclear,
        )

    def __sub__(self, other: Sent) -> Sent:
        return self + Sent(-other.prompts, -other.chars, -other.exact_tokens, -other.unclear)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a cluster's engines counted: cumulative. A prompt is counted when its first token is there."""

    prompts: int = 0
    tokens: int = 0


def estimate_tokens(info: RequestInfo, ratio: float) -> int:
    """Tokens of all prompts of a request: those given as ids, and its characters ÷ `ratio`, rounded up."""
    return (info.prompt_tokens or 0) + tokens_of(info.prompt_chars + info.tool_bytes, ratio)


def tokens_of(chars: int, ratio: float) -> int:
    """Characters ÷ `ratio`, rounded up."""
    return -int(-chars // ratio)


class TokenRatio:
    """Characters a token of one cluster's model. `look` is called at even intervals, about once a second."""

    def __init__(self) -> None:
        self.ratio = FIRST_RATIO
        self.windows = 0
        self._start: tuple[Sent, Counted] | None = None
        self._looks = 0

    def restart(self) -> None:
        """Drop the window: what it counted is not continuous. The ratio stays."""
        self._start, self._looks = None, 0

    def look(self, sent: Sent, counted: Counted) -> None:
        """Both sides as they stand. Closes the window when it is sound, drops it when it is spoilt."""
        if self._start is None:
            self._start, self._looks = (sent, counted), 0
            return
        self._looks += 1
        ours, tokens = sent - self._start[0], counted.tokens - self._start[1].tokens
        prompts = counted.prompts - self._start[1].prompts
        if self._spoilt(ours, prompts, tokens):
            self._start, self._looks = (sent, counted), 0
        elif _complete(ours.prompts, prompts):
            self._learn(ours, tokens)
            self._start, self._looks = (sent, counted), 0

    def _spoilt(self, ours: Sent, prompts: int, tokens: int) -> bool:
        backwards = min(ours.prompts, ours.chars, prompts, tokens) < 0
        foreign = prompts > ours.prompts + FOREIGN_PROMPTS + APART_RATIO * ours.prompts
        return backwards or foreign or self._looks > LONGEST_LOOKS

    def _learn(self, ours: Sent, tokens: int) -> None:
        """Take a complete window in: a weighted step towards what it saw, at most by STEP_FACTOR."""
        of_chars = tokens - ours.exact_tokens
        if of_chars <= 0 or ours.unclear > UNCLEAR_RATIO * ours.prompts:
            return
        seen = ours.chars / of_chars
        if not PLAUSIBLE[0] <= seen <= PLAUSIBLE[1]:
            return
        self.windows += 1
        near = min(max(seen, self.ratio / STEP_FACTOR), self.ratio * STEP_FACTOR)
        share = max(LEAST_SHARE, 1 / self.windows)
        self.ratio = min(max(self.ratio + share * (near - self.ratio), LEAST_RATIO), MOST_RATIO)


def _complete(sent: int, counted: int) -> bool:
    enough = min(sent, counted) >= ENOUGH_PROMPTS
    return enough and abs(sent - counted) <= APART_RATIO * max(sent, counted)


class EngineCounters:
    """The counters of a cluster's engines, added up as they grow. Not safe across threads."""

    def __init__(self) -> None:
        self._last: dict[str, Counted] = {}
        self.total = Counted()

    def look(self, now: Iterable[tuple[str, Counted]]) -> bool:
        """The counters of each engine by address. False when one began anew: what it counted before is lost.

        An engine's first look only says where it stands. One that is away keeps its last counters.
        """
        continuous = True
        for address, counted in now:
            last = self._last.get(address)
            self._last[address] = counted
            if last is None:
                continuous = continuous and counted.prompts == 0
            elif counted.prompts < last.prompts or counted.tokens < last.tokens:
                continuous = False
            else:
                self._grow(counted.prompts - last.prompts, counted.tokens - last.tokens)
        return continuous

    def _grow(self, prompts: int, tokens: int) -> None:
        self.total = Counted(self.total.prompts + prompts, self.total.tokens + tokens)

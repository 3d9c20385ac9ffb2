"""How many tokens a request's output will have, by its class, learned from what the engines generated in total.

    what this gateway sent        sequences, by class          ─┐
                                                                ├─▶ tokens a sequence, by class
    what the engines counted      requests that ended, tokens  ─┘

No response passes through Tidegate, so no single length is ever seen. A window of traffic gives one equation: the sum
over the classes of sequences × expected tokens is what the engines generated. Windows with other mixes give others,
and a normalised least-mean-squares step in the logarithm of each expectation follows them:

    expected of class c = prior · e^(common + own_c)
    error r = ln(generated ÷ Σ n_c·expected_c), cut to ± ln 2
    step of common = µ·r ÷ (1 + Σ w²),  of own_c = µ·r·w_c ÷ (1 + Σ w²),  w_c = the class's share in Σ n_c·expected_c

`common` moves classes that were not seen yet along with the others. A window opens and closes as those of prompts do
(`domain.tokens`): traffic of others, an engine that began anew and an odd window teach nothing.

Priors: the Azure 2023 trace of conversations generates 211 tokens a request (median 129), the Mooncake one 343
(median 350); 256 lies between. With tools, 182, as in Mooncake's tool and agent trace. Completions, 64: of code they
generate 28, of text more. Sources: "Splitwise" (ISCA 2024), "Mooncake" (FAST 2025), and their published traces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from math import exp, log
from typing import Final

from tidegate.domain.request import Kind, RequestInfo
from tidegate.domain.routing import Api
from tidegate.domain.tokens import Counted

PRIOR_TOKENS: Final = 256
PRIOR_WITH_TOOLS_TOKENS: Final = 182
PRIOR_COMPLETION_TOKENS: Final = 64

LIMITS: Final = (32, 256, 2048)
"""A class's limit of output tokens: up to each of these, more, or none."""
PROMPTS: Final = (2_000, 16_000)
"""A class's characters of prompt: up to each of these, or more."""
CHARS_OF_ID: Final = 4

_LIMITS: Final = (*map(str, LIMITS), "+")
_PROMPTS: Final = (*map(str, PROMPTS), "+")

UNCLEAR: Final = "?"
"""The class of sequences of which engines may count one or several: more than one for a prompt."""

ENOUGH_REQUESTS: Final = 64
"""Requests that a window needs: those in flight at its ends are then a small part of it."""
APART_RATIO: Final = 0.1
"""How far apart sent and finished may be, as a part of the greater: what runs is not counted yet."""
FOREIGN_REQUESTS: Final = 16
"""Requests beyond APART_RATIO that only the engines saw, from which on a window holds traffic of others."""
UNCLEAR_RATIO: Final = 0.05
LONGEST_LOOKS: Final = 600
"""Looks after which a window that did not close is dropped."""
LARGEST_STEP: Final = log(2.0)
LEAST_SHARE: Final = 0.2
"""A window's share µ in what is learned, once a few were seen; the first counts whole, the second half, and so on."""
WIDEST: Final = log(64.0)
"""`common` and each `own` stay within ± this: 64 times the prior, or a 64th of it."""


def class_of(info: RequestInfo) -> str:
    """The class of a request that generates, such as `chat,stream,tools,256,16000`: at most 60 an API.

    API, whether it streams, whether it has tools, its limit of output tokens and its prompt's characters, each as the
    bucket's upper end; `-` is no limit, `+` more than the greatest.
    """
    chars = info.prompt_chars + info.tool_bytes + CHARS_OF_ID * (info.prompt_tokens or 0)
    return _class(
        info.api,
        info.stream,
        info.tools > 0,
        _bucket(info.max_output_tokens, LIMITS, _LIMITS),
        _bucket(chars, PROMPTS, _PROMPTS),
    )


_TAIL: Final = frozenset(("-" if limit is None else limit, chars) for limit in (None, *_LIMITS) for chars in _PROMPTS)
_HEADS: Final = frozenset(
    (api.value, *stream, *tools) for api in Api for stream in ((), ("stream",)) for tools in ((), ("tools",))
)


def is_class(name: str) -> bool:
    """Whether `class_of` gives such a name, or it is UNCLEAR."""
    parts = tuple(name.split(","))
    return name == UNCLEAR or (parts[-2:] in _TAIL and parts[:-2] in _HEADS)


def _bucket(number: int | None, ends: tuple[int, ...], names: tuple[str, ...]) -> str:
    return "-" if number is None else names[bisect_left(ends, number)]


@lru_cache(4096)
def _class(api: Api, stream: bool, tools: bool, limit: str, chars: str) -> str:
    return ",".join([api.value, *(["stream"] if stream else []), *(["tools"] if tools else []), limit, chars])


@lru_cache(4096)
def prior_of(name: str) -> float:
    """Expected output tokens of a class of which nothing was learned, at most the upper end of its limit."""
    parts = name.split(",")
    prior = PRIOR_WITH_TOOLS_TOKENS if "tools" in parts else PRIOR_TOKENS
    if parts[0] == Api.COMPLETIONS.value:
        prior = PRIOR_COMPLETION_TOKENS
    return float(min(prior, most_of(name)))


@lru_cache(4096)
def most_of(name: str) -> float:
    """The upper end of a class's limit of output tokens; infinite where it has none."""
    limit = name.rpartition(",")[0].rpartition(",")[2]
    return float(limit) if limit.isdigit() else float("inf")


def decodes(info: RequestInfo) -> bool:
    """Whether a request generates tokens at all: no embedding, no picture, no limit of 0."""
    return info.generation and info.kind is not Kind.IMAGE and info.max_output_tokens != 0


class OutputLengths:
    """Expected output tokens by class, of one cluster. `look` is called at even intervals, about once a second."""

    def __init__(self) -> None:
        self.windows = 0
        self._common = 0.0
        self._own: dict[str, float] = {}
        self._start: tuple[Mapping[str, int], Counted] | None = None
        self._looks = 0

    def of(self, name: str) -> float:
        """Tokens of one sequence of that class, more than 0 and at most its limit's upper end."""
        return min(prior_of(name) * exp(self._common + self._own.get(name, 0.0)), most_of(name))

    @property
    def learned(self) -> dict[str, float]:
        """What is expected of each class that was seen."""
        return {name: self.of(name) for name in self._own}

    def restart(self) -> None:
        """Drop the window: what it counted is not continuous. What was learned stays."""
        self._start, self._looks = None, 0

    def look(self, sent: Mapping[str, int], counted: Counted) -> None:
        """Sequences sent by class, and requests that ended with their tokens (`Counted`), as they stand."""
        if self._start is None:
            self._start, self._looks = (dict(sent), counted), 0
            return
        self._looks += 1
        before, then = self._start
        ours = {name: sent.get(name, 0) - before.get(name, 0) for name in before.keys() | sent.keys()}
        total, ended, tokens = sum(ours.values()), counted.prompts - then.prompts, counted.tokens - then.tokens
        if self._spoilt(min(ours.values(), default=0), total, ended, tokens):
            self._start, self._looks = (dict(sent), counted), 0
        elif _complete(total, ended):
            self._learn(ours, total, tokens)
            self._start, self._looks = (dict(sent), counted), 0

    def _spoilt(self, least: int, total: int, ended: int, tokens: int) -> bool:
        backwards = min(least, ended, tokens) < 0
        foreign = ended > total + FOREIGN_REQUESTS + APART_RATIO * total
        return backwards or foreign or self._looks > LONGEST_LOOKS

    def _learn(self, ours: Mapping[str, int], total: int, tokens: int) -> None:
        parts = {name: number * self.of(name) for name, number in ours.items() if number and name != UNCLEAR}
        whole = sum(parts.values())
        if tokens <= 0 or not whole or ours.get(UNCLEAR, 0) > UNCLEAR_RATIO * total:
            return
        self.windows += 1
        error = _within(log(tokens / whole), LARGEST_STEP)
        shares = {name: part / whole for name, part in parts.items()}
        step = max(LEAST_SHARE, 1 / self.windows) * error / (1 + sum(share * share for share in shares.values()))
        self._common = _within(self._common + step, WIDEST)
        for name, share in shares.items():
            self._own[name] = _within(self._own.get(name, 0.0) + step * share, WIDEST)


def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)


def _complete(sent: int, ended: int) -> bool:
    enough = min(sent, ended) >= ENOUGH_REQUESTS
    return enough and abs(sent - ended) <= APART_RATIO * max(sent, ended)

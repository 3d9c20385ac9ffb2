"""What the operator wrote about requests: rules that name a cluster, and splits of a model over clusters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PERMILLE: Final = 1000


class Media(StrEnum):
    """A kind of content beside text that a request may carry."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"


class Api(StrEnum):
    """The endpoint of the gateway that a request calls, whatever the version in its path.

    GENERATE is the engines' own token endpoint; UNKNOWN is any other path, served by the model in its body.
    """

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    MESSAGES = "messages"
    IMAGES = "images"
    AUDIO = "audio"
    RERANK = "rerank"
    SCORE = "score"
    POOLING = "pooling"
    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    GENERATE = "generate"
    COUNT_TOKENS = "count_tokens"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # that of Enum is written in Python, and this one is hashed several times a request


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Whole numbers from `low` to `high`, both included; `high` None is no upper end."""

    low: int = 0
    high: int | None = None

    def __contains__(self, tokens: int) -> bool:
        return self.low <= tokens and (self.high is None or tokens <= self.high)


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """Conditions that all have to hold; one that is None (or empty, for `headers`) always does.

    `headers` are lower-case name and exact value.
    """

    model: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    prompt_tokens: TokenRange | None = None
    output_tokens: TokenRange | None = None
    media: Media | None = None
    api: Api | None = None


@dataclass(frozen=True, slots=True)
class RouteRule:
    """Requests that match go to `cluster`; with `model`, under that name instead of the one they came with.

    With `share_permille`, those of that share of users alone: for the others the rule does not hold.
    """

    match: RouteMatch
    cluster: str
    model: str | None = None
    share_permille: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Parts per thousand of a model's requests, by cluster, in file order; they sum to 1000.

    `canary` are the clusters that `X-Canary: true` means; `salt` (None: the model's name) decides which users are on
    which side.
    """

    model: str
    parts: tuple[tuple[str, int], ...]
    canary: tuple[str, ...] = ()
    salt: str | None = None


@dataclass(frozen=True, slots=True)
class Shadow:
    """Clusters that get copies of so many parts per thousand of a model's requests; their answers are dropped."""

    model: str
    parts: tuple[tuple[str, int], ...]


_COMPARISON = re.compile(r"(>=|<=|>|<|=)\s*([0-9]{1,12})", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,12})\s*\.\.\s*([0-9]{1,12})", re.ASCII)


def parse_token_range(text: str) -> TokenRange:
    """`>8192`, `>=1`, `<100`, `<=100`, `=7`, or `1..100` with both ends included.

    Raises ValueError with a sentence when it is none of them or when no number of tokens satisfies it.
    """
    if found := _RANGE.fullmatch(text.strip()):
        low, high = int(found[1]), int(found[2])
        if low > high:
            raise ValueError(f"{text!r} is empty: its first number is the greater one")
        return TokenRange(low, high)
    if found := _COMPARISON.fullmatch(text.strip()):
        return _compared(found[1], int(found[2]))
    raise ValueError(f"{text!r} is no comparison; write '>8192', '>=1', '<100', '<=100', '=7' or '1..100'")


def _compared(sign: str, number: int) -> TokenRange:
    if sign == "<" and number == 0:
        raise ValueError("'<0' is empty: no request has fewer than 0 tokens")
    return {
        ">": TokenRange(number + 1),
        ">=": TokenRange(number),
        "<": TokenRange(0, number - 1),
        "<=": TokenRange(0, number),
        "=": TokenRange(number, number),
    }[sign]

"""Whether a rule of the configuration file holds for a request. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import RouteMatch, TokenRange


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as rules see it.

    `names` are the model's name as the client sent it and, where that is an alias, the one it stands for; empty
    when there is none. `prompt_tokens` is exact where the request gave ids, else an estimate. `header` gives the
    value of a header by its lower-case name: None when absent; of one sent more than once, all values, joined by
    commas.
    """

    info: RequestInfo
    names: tuple[str, ...]
    prompt_tokens: int
    header: Callable[[str], str | None]


def holds(match: RouteMatch, asked: Asked) -> bool:
    """Whether every condition of `match` is met; a match without conditions always is."""
    return (
        (match.model is None or match.model in asked.names)
        and (match.api is None or match.api is asked.info.api)
        and (match.media is None or match.media in asked.info.media)
        and (match.prompt_tokens is None or asked.prompt_tokens in match.prompt_tokens)
        and (match.output_tokens is None or _within(asked.info.max_output_tokens, match.output_tokens))
        and all(asked.header(name) == value for name, value in match.headers)
    )


def _within(limit: int | None, wanted: TokenRange) -> bool:
    """A request without a limit may run on to the end of the context: only ranges without an upper end hold it."""
    return wanted.high is None if limit is None else limit in wanted

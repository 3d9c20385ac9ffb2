"""How much of what is refused is told: a script that went wrong fills no Redis, and makes no write outlast a lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MOST_TOLD: Final = 200
MORE: Final = "more"


def told(refused: Mapping[str, str]) -> Mapping[str, str]:
    """The first 200 refusals by key, and how many more there are, under `more`; all of them where they are fewer."""
    if len(refused) <= MOST_TOLD:
        return refused
    first = {key: refused[key] for key in sorted(refused)[:MOST_TOLD]}
    return {**first, MORE: f"{len(refused) - MOST_TOLD} more values are refused; remove those that are told first"}

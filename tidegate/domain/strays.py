"""Operators' keys for clusters and models that the file does not name: nobody reads them, so somebody has to say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

MODEL_KINDS: Final = frozenset({"split", "rollout"})
MOST_SAID: Final = 100
_SHOWN_CHARACTERS: Final = 60


def strays(keys: Iterable[str], clusters: Sequence[str], models: Sequence[str]) -> dict[str, str]:
    """A sentence for each `kind:name` whose name is none of the clusters; of the models for `split:` and `rollout:`.

    At most 100 of them, in order: somebody else may use the same Redis.
    """
    found: dict[str, str] = {}
    for key in sorted(keys):
        kind, _, name = key.partition(":")
        what, known = ("model", models) if kind in MODEL_KINDS else ("cluster", clusters)
        if name not in known and len(found) < MOST_SAID:
            found[key] = f"no {what} of the file is called {name[:_SHOWN_CHARACTERS]}{_hint(name, known)}"
    return found


def _hint(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""

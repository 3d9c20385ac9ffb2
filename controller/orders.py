"""What operators typed, from before and after a store was emptied."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.store.ports import RawOperatorKeys

Fields = Mapping[str, Mapping[str, str]]


def joined(before: RawOperatorKeys, after: RawOperatorKeys) -> RawOperatorKeys:
    """Every field of both; what was typed since wins, and of a split as a whole."""
    return RawOperatorKeys(
        weights=_joined(before.weights, after.weights),
        drains=_joined(before.drains, after.drains),
        tunes=_joined(before.tunes, after.tunes),
        splits={**before.splits, **after.splits},
        broken=after.broken,
        tuned={**before.tuned, **after.tuned},
    )


def _joined(before: Fields, after: Fields) -> dict[str, dict[str, str]]:
    return {name: {**before.get(name, {}), **after.get(name, {})} for name in before.keys() | after.keys()}

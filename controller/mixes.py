"""How mixed each replica's requests are, of what several pickers told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.domain.entropy import merged, normal_entropy
from tidegate.store.ports import Mix


def entropies(mixes: Iterable[Mix]) -> dict[tuple[str, str], float]:
    """Normalised entropy by cluster and address; who got too few requests to tell is absent."""
    parts: dict[tuple[str, str], list[Mapping[int, int]]] = {}
    for mix in mixes:
        for cluster, replicas in mix.items():
            for address, counts in replicas.items():
                parts.setdefault((cluster, address), []).append(counts)
    told = {place: normal_entropy(merged(counts)) for place, counts in parts.items()}
    return {place: entropy for place, entropy in told.items() if entropy is not None}

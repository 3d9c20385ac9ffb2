"""Model name → cluster, by the configuration file."""

from __future__ import annotations

from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.topology import Cluster, Topology

SHOWN_CHARACTERS = 100
"""Characters of a client's model name that are repeated to it."""


class ModelRoutes:
    """Which cluster serves a model. Immutable."""

    def __init__(self, topology: Topology) -> None:
        self._by_model = {model: cluster for cluster in topology.clusters for model in cluster.models}
        self._default = topology.default_model

    def cluster_of(self, model: str | None) -> Cluster:
        """The cluster of `model`, or of the default model when it is None or empty.

        Raises Refusal: model-required, model-not-found, or invalid-request for a name with control characters.
        """
        name = model or self._default
        if name is None:
            raise Refusal(Reason.MODEL_REQUIRED, "The body must name a `model`.", param="model")
        cluster = self._by_model.get(name)
        if cluster is None:
            raise _unknown(name)
        return cluster


def _unknown(model: str) -> Refusal:
    if not model.isprintable():
        message = "`model` contains characters that no model name has."
        return Refusal(Reason.INVALID_REQUEST, message, param="model")
    shown = model if len(model) <= SHOWN_CHARACTERS else model[:SHOWN_CHARACTERS] + "…"
    return Refusal(Reason.MODEL_NOT_FOUND, f"The model `{shown}` does not exist.", param="model")

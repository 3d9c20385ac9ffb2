"""The cards that a node has had. One that vanishes is lost: the driver's count alone would forget it."""

from __future__ import annotations

from typing import Final

from metrics_agent.gpu.errors import GPU_LOST, NO_PERMISSION
from metrics_agent.gpu.port import GpuFields, GpuTable, NvmlState

IDENTITY: Final = ("index", "name", "mig_parent", "mig_parent_index", "mig_slot")
PLACE: Final = "index-"


def place(index: object) -> str:
    """The name of a card that tells no UUID."""
    return f"{PLACE}{index}"


class Roster:
    """Remembers the identity of every card by UUID, as long as the agent lives."""

    def __init__(self) -> None:
        self._known: dict[str, GpuFields] = {}

    def complete(self, gpus: GpuTable) -> dict[str, GpuFields]:
        """What was read, and an unhealthy entry for each known card that was not."""
        result = dict(gpus)
        self._known |= {key: _identity(fields) for key, fields in gpus.items() if not key.startswith(PLACE)}
        for uuid in [uuid for uuid in self._known if uuid not in gpus]:
            if self._was_reconfigured(uuid, result):
                del self._known[uuid]
            else:
                result[uuid] = self._known[uuid] | _loss(result, self._known[uuid])
        return result

    def unknown(self, reason: str) -> dict[str, GpuFields]:
        """Every known card with its identity and why nothing else is known."""
        return {uuid: identity | {"reason": reason} for uuid, identity in self._known.items()}

    def _was_reconfigured(self, uuid: str, gpus: GpuTable) -> bool:
        """Whether it is a MIG device that a healthy card no longer has: an operator did that."""
        parent = gpus.get(str(self._known[uuid].get("mig_parent")))
        return parent is not None and parent.get("healthy") is True


def state_of(gpus: GpuTable) -> NvmlState:
    """What a node with these cards says of itself: the worst of them."""
    reasons = [fields.get("reason") for fields in gpus.values()]
    if GPU_LOST in reasons:
        return NvmlState.GPU_LOST
    if gpus and all(fields.get("reason") == NO_PERMISSION and "healthy" not in fields for fields in gpus.values()):
        return NvmlState.NO_PERMISSION
    return NvmlState.PARTIAL if any(reasons) else NvmlState.OK


def _loss(gpus: dict[str, GpuFields], identity: GpuFields) -> GpuFields:
    """Why a known card is missing: what the driver says at its place, else that it is lost."""
    places = [key for key in gpus if key.startswith(PLACE)]
    if not places or "mig_parent" in identity:
        return {"healthy": False, "reason": GPU_LOST}
    own = place(identity.get("index"))
    there = gpus.pop(own if own in places else places[0])
    return {name: there[name] for name in ("healthy", "reason", "sampled_at_ms") if name in there}


def _identity(fields: GpuFields) -> GpuFields:
    return {name: fields[name] for name in IDENTITY if name in fields}

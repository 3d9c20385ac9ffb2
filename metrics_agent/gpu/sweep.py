"""One sweep: every card of the driver, its MIG devices, and every field of each.

A card that tells no UUID is named `index-N`; the roster knows which card that was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from metrics_agent import nvml
from metrics_agent.gpu.card import Card, Unsupported
from metrics_agent.gpu.errors import NO_PERMISSION, OTHER_VERSION, UNSUPPORTED, DriverError, GpuError
from metrics_agent.gpu.port import GpuFields
from metrics_agent.gpu.roster import place

FIELDS: Final[dict[str, Callable[[Any], int | float]]] = {
    "utilization_ratio": nvml.utilization_ratio,
    "temperature_c": nvml.temperature_c,
    "power_w": nvml.power_w,
    "ecc_uncorrected": nvml.ecc_uncorrected,
}
# What stands of a card that stops to answer in the middle of its reading.
KEPT: Final = ("index", "name", "sampled_at_ms")
# What the driver says of an index that it counted and that holds no card.
ABSENT: Final = {"invalid_argument", "not_found", "gpu_not_found"}
# How a driver says that a slot is not ours; anything else may pass.
NOT_OURS: Final = {NO_PERMISSION, *ABSENT, *UNSUPPORTED}
# NVML's own limit of MIG devices a card, for a card that may not be asked.
MIG_SLOTS: Final = 7


class Sweeper:
    """Reads all cards again and again, in one initialisation of NVML. `clock` gives Unix milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._unsupported: Unsupported = set()
        self._names: dict[str, str] = {}
        self._mig_slots: dict[str, int] = {}

    def sweep(self) -> dict[str, GpuFields]:
        """Every card and MIG device by UUID. Raises GpuError when the driver does not even count its cards."""
        found: dict[str, GpuFields] = {}
        for index in range(nvml.card_count()):
            self._read_index(index, found)
        return found

    def _read_index(self, index: int, found: dict[str, GpuFields]) -> None:
        fields = GpuFields(index=index, sampled_at_ms=self._clock())
        card = Card(place(index), None, self._unsupported)
        try:
            card.handle = nvml.card(index)
            card.key = card.identity("uuid", nvml.uuid) or card.key
            found[card.key] = fields
            self._read_card(card, fields)
            self._read_mig_devices(card, index, found)
            fields |= card.health()
        except DriverError:
            raise
        except GpuError as exc:
            if card.handle is None and exc.kind in ABSENT:
                return
            found[card.key] = {name: fields[name] for name in KEPT if name in fields} | _trouble(exc.kind)

    def _read_card(self, card: Card, fields: GpuFields) -> None:
        self._read_name(card, fields)
        refused = len(card.refusals)
        if card.identity("mig_mode", nvml.mig_enabled):
            card.mig = fields["mig_enabled"] = True
        card.hides_mig = NO_PERMISSION in card.refusals[refused:]
        _read_memory(card, fields)
        for name, question in FIELDS.items():
            value = card.value(name, question)
            if value is not None:
                fields[name] = value

    def _read_name(self, card: Card, fields: GpuFields) -> None:
        name = self._names.get(card.key) or card.identity("name", nvml.name)
        if name:
            fields["name"] = self._names[card.key] = name

    def _read_mig_devices(self, parent: Card, index: int, found: dict[str, GpuFields]) -> None:
        """MIG devices of a card that has them, or that may not be asked whether it has.

        Which slots a container is given does not change while it lives: one that is refused is not asked again.
        """
        if not parent.mig and not parent.hides_mig:
            return
        for slot in range(self._slots(parent)):
            what = f"mig_device {slot}"
            if parent.lacks(what):
                continue
            try:
                handle = nvml.mig_device(parent.handle, slot)
                key = nvml.uuid(handle)
            except DriverError:
                raise
            except GpuError as exc:  # an empty slot, or one that another container owns
                if exc.kind == NO_PERMISSION or (parent.hides_mig and exc.kind in NOT_OURS):
                    parent.refuses(what)
                continue
            fields = GpuFields(mig_parent=parent.key, mig_parent_index=index, mig_slot=slot)
            found[key] = fields | self._read_mig_device(Card(key, handle, self._unsupported, mig=True))

    def _slots(self, parent: Card) -> int:
        known = self._mig_slots.get(parent.key) or parent.identity("mig_slots", nvml.mig_slots) or MIG_SLOTS
        self._mig_slots[parent.key] = known
        return known

    def _read_mig_device(self, device: Card) -> GpuFields:
        """Name and memory: utilisation, power and temperature belong to the whole card."""
        fields = GpuFields(sampled_at_ms=self._clock())
        self._read_name(device, fields)
        _read_memory(device, fields)
        return fields | device.health()


def _trouble(kind: str) -> GpuFields:
    """A card that may not be asked is neither healthy nor unhealthy."""
    return {"reason": kind} if kind == NO_PERMISSION else {"healthy": False, "reason": kind}


def _read_memory(card: Card, fields: GpuFields) -> None:
    told = card.value("memory_v2", partial(_versioned, "v2", nvml.memory_v2), OTHER_VERSION)
    told = told or card.value("memory_v1", partial(_versioned, "v1", nvml.memory_v1))
    if told is None:
        if card.lacks("memory_v1") and not card.mig:
            fields["unified_memory"] = True
        return
    version, memory = told
    fields |= {
        "memory_api": version,
        "vram_total_bytes": memory.total,
        "vram_free_bytes": memory.free,
        "vram_used_bytes": memory.used,
    }
    if memory.reserved is not None:
        fields["vram_reserved_bytes"] = memory.reserved


def _versioned(version: str, question: Callable[[Any], nvml.Memory], handle: Any) -> tuple[str, nvml.Memory]:
    return version, question(handle)

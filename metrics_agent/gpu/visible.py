"""Which cards a process may use, as its environment or an operator names them. Pure.

CUDA_VISIBLE_DEVICES is a list that ends at its first invalid entry: `0,1`, `GPU-8932f937`, `MIG-5c89…`. Its numbers
count in CUDA's order, which is NVML's with CUDA_DEVICE_ORDER=PCI_BUS_ID; by default the fastest card is first, and
equal cards are in NVML's order. NVIDIA_VISIBLE_DEVICES is read by the container runtime and counts in NVML's order:
`all`, `none`, `void`, numbers, `0:1` for a MIG device, UUIDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from metrics_agent.gpu.port import GpuTable
from tidegate.domain.topology import GPU_VARIABLES

CUDA, CUDA_ORDER, CONTAINER = GPU_VARIABLES
ALL: Final = "all"
NO_CARDS: Final = {"", "none", "void", "nodevfiles", "-1"}
PREFIXES: Final = ("GPU-", "MIG-")


def cards_of(gpus: GpuTable, wanted: Iterable[int | str]) -> tuple[str, ...] | None:
    """UUIDs of the cards named by NVML index, UUID or its unique start (with or without `GPU-`, `MIG-`); or `all`.

    A name may also be a variable of the engine's environment, as it stands there: `CUDA_VISIBLE_DEVICES=0,1`. Each
    card once, in the order of the names. None when a name fits no card, or several. A card by index or by `all` that
    is cut into MIG devices stands for its only device, and is ambiguous with several.
    """
    names = list(wanted)
    variables = dict(_variable(name) for name in names if isinstance(name, str) and "=" in name)
    found: list[str] = []
    cards: Sequence[str] | None
    for name in names:
        if isinstance(name, int) or "=" not in name:
            cards = _named(gpus, name)
        else:
            cards = cards_of_environment(gpus, variables)
        if cards is None:
            return None
        found += [uuid for uuid in cards if uuid not in found]
    return tuple(found)


def cards_of_environment(gpus: GpuTable, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """UUIDs of the cards that a process with this environment uses; None when that cannot be told.

    Neither variable set is all cards. With both set, CUDA's picks among what the container's lets in.
    """
    inside, listed = _container(gpus, environment.get(CONTAINER)), environment.get(CUDA)
    if inside is None or listed is None:
        return inside
    parents = {gpus[uuid].get("mig_parent") for uuid in inside}
    there = {uuid: fields for uuid, fields in gpus.items() if uuid in inside or uuid in parents}
    return _cuda(there, listed, environment.get(CUDA_ORDER, ""))


def _variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().upper(), value


def _container(gpus: GpuTable, listed: str | None) -> tuple[str, ...] | None:
    if listed is None or listed.strip().lower() == ALL:
        return cards_of(gpus, (ALL,))
    if listed.strip().lower() in NO_CARDS:
        return ()
    return cards_of(gpus, [_number_or_text(part) for part in listed.split(",") if part.strip()])


def _cuda(gpus: GpuTable, listed: str, order: str) -> tuple[str, ...] | None:
    """CUDA's own reading: the list ends at its first invalid entry, and a card named twice leaves none."""
    found: list[str] = []
    for part in listed.split(","):
        name = _number_or_text(part)
        if str(name).lower() in NO_CARDS or (isinstance(name, int) and name < 0):
            break
        cards = _by_number(gpus, name, order) if isinstance(name, int) else _named(gpus, _exact(name))
        if cards is None:
            return None if isinstance(name, int) and _exists(gpus, name) else tuple(found)
        if set(cards) & set(found):
            return ()
        found += cards
    return tuple(found)


def _exact(name: str) -> str:
    return name if name.upper().startswith(PREFIXES) else "no such card"


def _exists(gpus: GpuTable, number: int) -> bool:
    return number < len(_whole(gpus))


def _by_number(gpus: GpuTable, number: int, order: str) -> list[str] | None:
    """The card at that place among those that are there: inside a container numbers start at 0."""
    whole = _whole(gpus)
    same = len({gpus[uuid].get("name") for uuid in whole}) <= 1
    if number >= len(whole) or not (same or order.strip().upper() == "PCI_BUS_ID"):
        return None
    return _with_mig(gpus, whole[number])


def _named(gpus: GpuTable, name: int | str) -> Sequence[str] | None:
    if isinstance(name, int):
        cards = [uuid for uuid in _whole(gpus) if gpus[uuid].get("index") == name]
        return _with_mig(gpus, cards[0]) if len(cards) == 1 else None
    text = name.strip().lower()
    if text == ALL:
        return _all(gpus)
    if ":" in text:
        return _mig_by_place(gpus, text)
    return _by_uuid(gpus, text)


def _by_uuid(gpus: GpuTable, text: str) -> list[str] | None:
    if not text or text in {prefix.lower() for prefix in PREFIXES}:
        return None
    starts = (text, *(prefix.lower() + text for prefix in PREFIXES))
    cards = [uuid for uuid in gpus if uuid.lower().startswith(starts)]
    exact = [uuid for uuid in cards if uuid.lower() in starts]
    cards = exact or cards
    return cards if len(cards) == 1 else None


def _mig_by_place(gpus: GpuTable, text: str) -> list[str] | None:
    cards = [u for u, f in gpus.items() if f"{f.get('mig_parent_index')}:{f.get('mig_slot')}" == text]
    return cards or None


def _all(gpus: GpuTable) -> list[str]:
    return [child for uuid in _whole(gpus) for child in (_children(gpus, uuid) or [uuid])]


def _with_mig(gpus: GpuTable, uuid: str) -> list[str] | None:
    children = _children(gpus, uuid)
    if len(children) > 1:
        return None
    return children or [uuid]


def _children(gpus: GpuTable, uuid: str) -> list[str]:
    return [child for child, fields in gpus.items() if fields.get("mig_parent") == uuid]


def _whole(gpus: GpuTable) -> list[str]:
    """Cards, without MIG devices, in NVML's order."""
    cards = [(int(str(fields["index"])), uuid) for uuid, fields in gpus.items() if fields.get("index") is not None]
    return [uuid for _, uuid in sorted(cards)]


def _number_or_text(part: str) -> int | str:
    text = part.strip()
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() else text

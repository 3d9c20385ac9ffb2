"""Replicas that are to get a part of what they would get, since they answer with faults or an alert says so."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.pick.replica import Replica


class Thinned:
    """Lets each such replica be considered for `part` (0…1) of an equal share of the picks, evenly spread.

    Costs cannot say it: whoever answers 500 at once is idle, and cheap. Where nobody else may be named, all may.
    """

    __slots__ = ("_credit", "_parts")

    def __init__(self) -> None:
        self._parts: Mapping[str, float] = {}
        self._credit: dict[str, float] = {}

    @property
    def parts(self) -> Mapping[str, float]:
        """The parts in force, by address."""
        return self._parts

    def set(self, parts: Mapping[str, float]) -> None:
        """From the next pick on these addresses get such parts, and all others everything."""
        self._parts = {address: part for address, part in parts.items() if part < 1.0}
        self._credit = {address: self._credit.get(address, 0.0) for address in self._parts}

    def among(self, usable: list[Replica]) -> list[Replica]:
        """Those of `usable` that this pick considers, in their order; at least one where there was one."""
        if not self._parts:
            return usable
        whole = [replica for replica in usable if replica.address not in self._parts]
        if len(whole) == len(usable) or not whole:
            return usable
        due = {one.address for one in usable if one.address in self._parts and self._due(one.address, len(usable))}
        return [replica for replica in usable if replica.address not in self._parts or replica.address in due]

    def _due(self, address: str, usable: int) -> bool:
        credit = self._credit[address] + self._parts[address] / usable
        due = credit >= 1.0 - 1e-9
        self._credit[address] = credit - 1.0 if due else credit
        return due

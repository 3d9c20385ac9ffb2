"""The replicas of a cluster: who they are, which slots they have, and who may be named at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidegate.domain.pick.replica import Replica
from tidegate.domain.pick.settings import PickSettings


class Fleet:
    """Replicas by address. A slot is a small number that a replica keeps while it is there; free ones are reused."""

    def __init__(self) -> None:
        self.by_address: dict[str, Replica] = {}
        self._all: list[Replica] = []
        self._free: list[int] = []
        self.slots = 0
        self.block = 1
        self._levels = False

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all)

    def get(self, address: str) -> Replica | None:
        """The replica of that address."""
        return self.by_address.get(address)

    def enter(self, address: str, settings: PickSettings) -> Replica:
        """One more, in a slot of its own."""
        if self._free:
            slot = self._free.pop()
        else:
            slot, self.slots = self.slots, self.slots + 1
        replica = self.by_address[address] = Replica(address, slot, settings)
        self._all.append(replica)
        return replica

    def leave(self, address: str) -> Replica | None:
        """One less, if it was there."""
        replica = self.by_address.pop(address, None)
        if replica is not None:
            self._all.remove(replica)
            self._free.append(replica.slot)
            self.level()
        return replica

    def level(self) -> None:
        """What holds for all changed: block sizes, priorities, speeds."""
        self.block = max((replica.block for replica in self._all), default=1)
        self._levels = len({replica.priority for replica in self._all}) > 1
        taught = sorted(replica.speed.factor for replica in self._all if replica.speed.windows)
        if taught:
            for replica in self._all:
                replica.speed.fleet = taught[len(taught) // 2]

    def usable(self, now_ms: float, among: Collection[str] | None) -> list[Replica]:
        """Open and fresh; `among` these where any is; those that show no progress only where there are no others."""
        sound = [replica for replica in self._all if replica.sound_until_ms >= now_ms]
        if sound and among is None:
            return sound
        usable = [replica for replica in self._all if replica.open and replica.fresh_until_ms >= now_ms]
        if among is not None:
            usable = [replica for replica in usable if replica.address in among] or usable
        return [replica for replica in usable if replica.sound_until_ms >= now_ms] or usable

    def closed(self, now_ms: float) -> bool:
        """Whether every replica is known to take nothing; so is an empty fleet."""
        return all(replica.closed(now_ms) for replica in self._all)

    def first_level(
        self, replicas: list[Replica], rooms: list[float] | None
    ) -> tuple[list[Replica], list[float] | None]:
        """Those of the lowest priority among `replicas`, and their rooms."""
        if not self._levels or not replicas:
            return replicas, rooms
        first = min(replica.priority for replica in replicas)
        if rooms is not None:
            rooms = [room for replica, room in zip(replicas, rooms, strict=True) if replica.priority == first]
        return [replica for replica in replicas if replica.priority == first], rooms

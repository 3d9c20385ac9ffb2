"""Keeps a FleetView current: samples from pub/sub, weights and the index by polling, host names by DNS.

Each method is one endless task for `Service.spawn`. A store that fails ends the task with a StoreError; the
service starts it again with backoff, and the view keeps what it knew.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Protocol

from ext_proc.outputs import OUTPUTS, OutputBook, read_outputs
from ext_proc.tokens import TokenBook, read_shared
from ext_proc.view import FleetView, destination
from tidegate.domain.actions.effects import Effects
from tidegate.domain.topology import split_address
from tidegate.store.nudged import Nudged
from tidegate.store.ports import Acts, DecisionLog, Nudges, Presence, SampleSource

RESOLVE_SECONDS = 1.0
"""Between two looks at host names: a replica that registers by name is picked within this time."""
TOKENS_SECONDS = 1.0
"""Between two looks at the engines' counters of prompts."""
SERVICE = "ext_proc"
SHARED = "sent"
"""The key of an instance's presence under which it tells what it sent."""


class FleetStore(Acts, SampleSource, DecisionLog, Nudges, Presence, Protocol):
    """What the feed reads."""


class FleetFeed:
    """Reads the store into the view. `clock` gives Unix milliseconds, by the store's clock.

    `changed` is called after each change: there may be room for those who wait.
    """

    def __init__(
        self,
        view: FleetView,
        store: FleetStore,
        *,
        tick_ms: int,
        clock: Callable[[], int],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._view, self._store, self._clock, self._changed = view, store, clock, changed
        self._tick_seconds, self._nudged = tick_ms / 1000, Nudged(store)

    async def follow_samples(self) -> None:
        """Every stored sample once, then each tick of an agent as it comes."""
        self._view.sampled(await self._store.samples(), self._clock())
        async for tick in self._store.ticks():
            self._view.left(tick.gone)
            self._view.sampled(tick.endpoints, self._clock())
            self._changed()

    async def follow_decisions(self) -> None:
        """Weights, who is reduced, and the index of replicas: each `tick_ms`, and at once on a word that says so."""
        while True:
            index, departed = await self._store.roll()
            self._view.registered(index, self._clock(), departed)
            self._view.weighted(await self._store.effective(self._view.names))
            self._view.reduced(parts_of(await self._store.effects()))
            self._changed()
            await self._nudged.within(self._tick_seconds)

    async def follow_nudges(self) -> None:
        """Hear when something was decided, on behalf of `follow_decisions`."""
        await self._nudged.listen()

    async def follow_tokens(self, tokens: TokenBook, outputs: OutputBook, instance: str) -> None:
        """Teach the books what the engines count, against what this and every other instance sent."""
        while True:
            present = (await self._store.present()).get(SERVICE, {})
            others, samples = [info for name, info in present.items() if name != instance], self._view.samples()
            tokens.look(samples, [read_shared(info.get(SHARED)) for info in others])
            outputs.look(samples, [read_outputs(info.get(OUTPUTS)) for info in others])
            await asyncio.sleep(TOKENS_SECONDS)

    async def follow_names(self) -> None:
        """Resolve the replicas that are named by host. A name that does not resolve keeps its last address."""
        while True:
            for address in sorted(self._view.host_names()):
                with contextlib.suppress(OSError, ValueError):
                    self._view.resolved(address, await resolve(address))
            await asyncio.sleep(RESOLVE_SECONDS)


def parts_of(effects: Effects) -> dict[str, dict[str, float]]:
    """The parts that replicas are reduced to, by cluster and address."""
    return {name: {address: one.ratio for address, one in fields.items()} for name, fields in effects.reduced.items()}


async def resolve(address: str) -> list[str]:
    """Every `ip:port` of `host:port`, IPv4 first, each family in ascending order, as EDS sees them.

    Raises OSError, or ValueError when malformed.
    """
    host, port = split_address(address)
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found = {ip_address(str(info[4][0]).partition("%")[0]) for info in infos}
    ordered = sorted(found, key=lambda ip: (ip.version, int(ip)))
    return [destination(ip, port) for ip in ordered]

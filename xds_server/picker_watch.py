"""Whether any ext_proc answers, seen from here: what decides that Envoy has to do without.

Redis does not tell: it may be away itself, and a beat ends seconds after its instance. So every instance is asked
for its gRPC health, by the address at which Envoy finds it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import grpc
import structlog
from prometheus_client import CollectorRegistry, Gauge

from tidegate.grpc_health import HEALTH, SERVING
from tidegate.grpc_tls import ChannelTls
from xds_server.resolver import Lookup, system_lookup

EVERY_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 0.5
BACK_SECONDS: Final = 1.0
"""How long an ext_proc has to answer before requests are sent to it again."""
LOOKUP_EVERY_SECONDS: Final = 5.0

_CHANNEL: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 400),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

log = structlog.get_logger("xds_server.picker")


class PickerState:
    """Away as soon as no instance answers; back once one has answered for `BACK_SECONDS` on end. Pure."""

    def __init__(self) -> None:
        self.away = False
        self._answers_since: float | None = None

    def heard(self, any_serves: bool, at_seconds: float) -> bool:
        """Take one round of answers; whether `away` changed by it."""
        before = self.away
        if not any_serves:
            self.away, self._answers_since = True, None
        elif self._answers_since is None:
            self._answers_since = at_seconds
        if any_serves and self._answers_since is not None and at_seconds - self._answers_since >= BACK_SECONDS:
            self.away = False
        return self.away != before


class PickerWatch:
    """Asks each address of `host`, at each port up to `last_port`, in turn.

    `away` is read by the publisher, `changed` is awaited after each change.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        lookup: Lookup = system_lookup,
        monotonic_seconds: Callable[[], float] = time.monotonic,
        tls: ChannelTls | None = None,
        last_port: int | None = None,
    ) -> None:
        self._host, self._ports, self._lookup, self._now = host, (port, last_port or port), lookup, monotonic_seconds
        self._tls, self._material = tls, tls and tls.watch.material
        self._state, self._channels, self._older = PickerState(), dict[str, Any](), dict[str, Any]()
        self._looked_up_at: float | None = None
        self._gauge = Gauge("tidegate_xds_picker_away", "1 while no ext_proc answers, else 0", registry=registry)

    @property
    def away(self) -> bool:
        """Whether no ext_proc answers."""
        return self._state.away

    async def run(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Ask every 200 ms until cancelled."""
        try:
            while True:
                if self._state.heard(await self._any_serves(), self._now()):
                    self._say()
                    await changed()
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self._close_older()
            await self._keep(())

    def _say(self) -> None:
        self._gauge.set(self.away)
        where = f"{self._host}:{'-'.join(str(port) for port in dict.fromkeys(self._ports))}"
        if self.away:
            log.warning("no ext_proc answers; Envoy does without", ext_proc=where)
        else:
            log.info("ext_proc answers again", ext_proc=where)

    async def _any_serves(self) -> bool:
        await self._look_up()
        channels = (*self._channels.values(), *self._older.values())
        answers = await asyncio.gather(*map(self._serves, channels))
        return any(answers)

    async def _serves(self, channel: Any) -> bool:
        try:
            answer = await channel.unary_unary(f"/{HEALTH}/Check")(b"", timeout=PATIENCE_SECONDS)
        except grpc.RpcError:
            return False
        return bool(answer == SERVING)

    async def _look_up(self) -> None:
        now = self._now()
        await self._renew()
        if self._looked_up_at is not None and now - self._looked_up_at < LOOKUP_EVERY_SECONDS and self._channels:
            return
        self._looked_up_at = now
        await self._close_older()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._keep(await self._lookup(self._host))
        except OSError:  # a name that does not resolve keeps its last addresses
            return

    async def _keep(self, ips: Iterable[str]) -> None:
        """One channel an address and port."""
        first, last = self._ports
        hosts = [f"[{ip}]" if ":" in ip else ip for ip in ips]
        wanted = {f"{host}:{port}" for host in hosts for port in range(first, last + 1)}
        for gone in self._channels.keys() - wanted:
            await self._channels.pop(gone).close()
        for address in sorted(wanted - self._channels.keys()):
            self._channels[address] = self._channel(address)

    def _channel(self, address: str) -> Any:
        if self._tls is None:
            return grpc.aio.insecure_channel(address, options=_CHANNEL)
        return self._tls.channel(address, _CHANNEL)

    async def _renew(self) -> None:
        """With other certificates, other channels. Those before are asked as well until the next look-up.

        A handshake may take longer than an answer, and one round without an answer is an ext_proc that is away.
        """
        if self._tls is None or self._tls.watch.material is self._material:
            return
        self._material = self._tls.watch.material
        await self._close_older()
        self._older, self._channels = self._channels, {address: self._channel(address) for address in self._channels}
        self._looked_up_at = self._now()

    async def _close_older(self) -> None:
        older, self._older = self._older, {}
        for channel in older.values():
            await channel.close()

"""A controller with its rollouts before a clock and an outcomes service that the test moves."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from prometheus_client import CollectorRegistry

from controller.controller import Controller
from controller.rollouts.duty import Rollouts
from controller.rollouts.metrics import RolloutMetrics
from tests.controller.world import Clock, tick
from tests.rollout.figures import figures, told
from tidegate.domain.errors import NotLeading
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.rollout.course import State
from tidegate.domain.routing import Split
from tidegate.domain.topology import Cluster, Topology
from tidegate.store.memory import MemoryStore
from tidegate.store.rollouts import ORDER, STATE, decode_state, rollout_key

MODEL = "m"
TOPOLOGY = Topology(
    clusters=(Cluster("stable", models=(MODEL,)), Cluster("canary", models=()), Cluster("other", models=())),
    splits=(Split(MODEL, (("stable", 1000), ("canary", 0))),),
)
HOLD_MS = 10_000
_numbers = itertools.count()


class Desk:
    """Each `look` is half a second: the controller decides, then the duty looks."""

    def __init__(self) -> None:
        self.clock: Any = Clock()  # type: ignore[no-untyped-call]
        self.store = MemoryStore(self.clock)
        self.sums: dict[str, Figures] = {"stable": Figures(), "canary": Figures()}
        self.tells = True
        self.run = "one"
        self.start_controller()

    def start_controller(self) -> None:
        """Another process: nothing is remembered."""
        self.controller = Controller(self.store, TOPOLOGY, clock=self.clock, instance=f"c{next(_numbers)}")
        self.duty = Rollouts(self.store, TOPOLOGY, RolloutMetrics(CollectorRegistry()))

    def empty(self) -> None:
        """Redis lost everything."""
        self.store = MemoryStore(self.clock)
        self.controller.store = self.store
        self.duty._store = self.store

    async def start(self, **fields: str) -> None:
        """As redis-cli begins one."""
        plan = {"to": "canary", "steps": "5,50,100", "hold": "10s"} | fields
        for name, text in plan.items():
            await self.store.set_field(rollout_key(MODEL), name, text)
        await self.look(2)

    async def order(self, word: str) -> None:
        await self.store.set_field(rollout_key(MODEL), ORDER, word)
        await self.look()

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            if self.controller.lease is not None:
                with contextlib.suppress(NotLeading):  # its clock is another one than the test's
                    await self.store.keep_lead(self.controller.lease, ttl_ms=2_000)
            self.clock.at_ms += 500
            if self.tells:
                versions = {MODEL: {name: told(one) for name, one in self.sums.items()}}
                await self.store.tell_outcomes("o", Report(versions=versions, run=self.run), ttl_ms=5_000)
            await self.store.publish(tick(self.clock(), cluster="stable", a=0.5), ttl_ms=3000)  # type: ignore[no-untyped-call]
            await self.controller.tick()
            if self.controller.lease is not None:
                await self.duty.tick(self.controller.lease)

    async def serve(self, cluster: str, requests: int, faults: int = 0, **more: Any) -> None:
        """Requests end, and the duty looks."""
        self.sums[cluster] = self.sums[cluster].plus(figures(requests, faults, **more))
        await self.look()

    async def serve_well(self, share: int = 100) -> None:
        """Both versions serve alike."""
        await self.serve("canary", share)
        await self.serve("stable", 1000)

    async def hold(self) -> None:
        """Until the hold of a step is over."""
        await self.look(HOLD_MS // 500 + 1)

    async def types(self, **shares: int) -> None:
        """An operator's HSETs on the split."""
        changes = [FieldChange(key=f"split:{MODEL}", field=name, value=str(share)) for name, share in shares.items()]
        await self.store.change_fields(changes, ())
        await self.look(2)

    async def state(self) -> State:
        found = decode_state((await self.fields()).get(STATE))
        assert found is not None
        return found

    async def fields(self) -> dict[str, str]:
        return (await self.store.rollouts([MODEL]))[0].get(MODEL, {})

    async def split(self) -> str | None:
        """What readers go by."""
        await self.look()
        return (await self.store.operator_keys((), ())).tuned.get(f"split:{MODEL}")

    async def told(self, what: str = "rollout:m") -> list[tuple[str, str]]:
        return [(event.before, event.after) for event in await self.store.events(200) if event.what == what]

    async def why(self) -> str:
        return (await self.state()).why

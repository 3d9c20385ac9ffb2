"""What a leader does beside weights, on a store in memory."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from controller.duties import carry_out
from controller.instruments import Instruments
from tests.conftest import until
from tidegate.domain.errors import NotLeading, StoreUnavailable
from tidegate.domain.lease import Lease

LEASE = Lease("me", 1)


@dataclass
class Failing:
    """Fails in each way in turn, then lives on."""

    name: str = "failing"
    every_seconds: float = 0.001
    faults: list[BaseException] = field(default_factory=list)
    ticks: int = 0

    async def tick(self, lease: Lease) -> None:
        assert lease == LEASE
        self.ticks += 1
        if self.faults:
            raise self.faults.pop()


async def test_a_duty_that_fails_in_any_way_goes_on_and_its_own_faults_are_counted() -> None:
    registry = CollectorRegistry()
    duty = Failing(faults=[StoreUnavailable("away"), NotLeading("other"), ValueError("own"), ZeroDivisionError()])
    task = asyncio.create_task(carry_out(duty, lambda: LEASE, Instruments(registry)))
    await until(lambda: duty.ticks >= 6, what="ticks after every fault")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert registry.get_sample_value("tidegate_controller_duty_faults_total", {"duty": "failing"}) == 2
    assert registry.get_sample_value("tidegate_controller_store_errors_total") == 1


async def test_a_duty_rests_while_another_controller_leads() -> None:
    duty, held, looks = Failing(), [None, None, LEASE], []

    def lease() -> Lease | None:
        looks.append(1)
        return held[min(len(looks), len(held)) - 1]

    task = asyncio.create_task(carry_out(duty, lease, Instruments(CollectorRegistry())))
    await until(lambda: duty.ticks >= 1, what="a tick under the lease")
    task.cancel()
    assert len(looks) >= 3

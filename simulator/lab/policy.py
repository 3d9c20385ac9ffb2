"""What the lab asks of a policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from simulator.engine import EngineParams
from simulator.lab.call import Call
from simulator.lab.replica import Replica
from tidegate.domain.sample import EndpointSample


@dataclass(frozen=True, slots=True)
class Setting:
    """What a policy is built from. `params` are what the fleet's engines are believed to be: with a wrong rate they
    are not what `fleet` runs. `fleet` is the truth, for the oracle alone; `rng` is the policy's own. `others` is how
    many pickers share the traffic with this one, `place` (0 to `others`) this one's among all."""

    params: EngineParams
    fleet: Sequence[Replica]
    rng: random.Random
    others: int = 0
    place: int = 0


class Policy(Protocol):
    """One picker. Replicas are numbers from 0; times are simulated seconds."""

    def choose(self, call: Call, now: float) -> int | None:
        """Where the call goes; None: nobody has room, it waits in the gateway and is asked for again."""

    def sent(self, call: Call, replica: int, now: float) -> object:
        """The call goes there; follows each choice at once. What the other pickers are to be told, None: nothing."""

    def began(self, call: Call, replica: int, now: float) -> None:
        """The call's first token came by."""

    def ended(self, call: Call, replica: int, now: float) -> None:
        """The call's last token came by."""

    def sampled(self, replica: int, sample: EndpointSample, now: float) -> None:
        """A sample arrives, as old as its delivery took."""

    def sent_elsewhere(self, record: object, now: float) -> None:
        """Another picker sent a call; `record` is what its `sent` returned."""


class Plain:
    """A policy that learns nothing. Policies of the lab begin here and say what they do otherwise."""

    def sent(self, call: Call, replica: int, now: float) -> None:
        """Nothing is counted, nobody is told."""

    def began(self, call: Call, replica: int, now: float) -> None:
        """Nothing is counted."""

    def ended(self, call: Call, replica: int, now: float) -> None:
        """Nothing is counted."""

    def sampled(self, replica: int, sample: EndpointSample, now: float) -> None:
        """Samples say nothing to it."""

    def sent_elsewhere(self, record: object, now: float) -> None:
        """Others' dispatches say nothing to it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How the lab runs a policy: its builder, whether it takes samples, and their interval and delivery
    (milliseconds, from and to) where they are not the agent's."""

    build: Callable[[Setting], Policy]
    sampled: bool = False
    sample_ms: float | None = None
    delivery_ms: tuple[float, float] | None = None

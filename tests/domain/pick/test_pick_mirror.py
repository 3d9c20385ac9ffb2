"""Several processes that pick for one fleet, and hear of one another some milliseconds later, do not herd."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidegate.domain.pick.picker import ClusterPicker
from tidegate.domain.pick.settings import DEFAULT
from tidegate.domain.pick.work import Work
from tidegate.domain.sample import EndpointSample, Status

NOW = 1_800_000_000_000
REPLICAS = [f"10.0.0.{number}:8000" for number in range(8)]


def picker(others: int = 0, place: int = 0) -> ClusterPicker:
    """Eight idle replicas."""
    made = ClusterPicker(DEFAULT, sample_ttl_ms=3000)
    made.shares_with(others, place)
    for address in REPLICAS:
        made.joined(address, address)
        sample = EndpointSample(
            cluster="c", address=address, node="n", sampled_at_ms=NOW, seq=1, status=Status.IDLE, running=0, waiting=0
        )
        made.sampled(sample, NOW)
    return made


class Fleet:
    """Processes whose word reaches the others `lag_ms` later."""

    def __init__(self, processes: int, lag_ms: float, *, mirrored: bool = True) -> None:
        self.pickers = [picker(processes - 1, n) if mirrored else picker() for n in range(processes)]
        self.lag_ms, self.told, self.counts = lag_ms, list[tuple[float, int, object]](), Counter[str]()

    def send(self, process: int, tokens: int, at_ms: float) -> None:
        for due, sender, record in self.told:
            for number, one in enumerate(self.pickers):
                if due <= at_ms and number != sender:
                    one.sent_elsewhere(record, due)  # type: ignore[arg-type]
        self.told = [word for word in self.told if word[0] > at_ms]
        one, work = self.pickers[process], Work(prompt_tokens=tokens, output_tokens=64)
        address = one.pick(work, at_ms).chosen[0].address
        self.told.append((at_ms + self.lag_ms, process, one.dispatch_record(one.sent(address, work, at_ms))))
        self.counts[address] += 1

    def imbalance(self) -> float:
        return max(self.counts.values()) / (self.counts.total() / len(REPLICAS))


def burst(fleet: Fleet, tokens: int, seed: int) -> float:
    """64 requests within some 20 ms, spread over the processes at random: the greatest share ÷ the mean."""
    chance, at_ms = random.Random(seed), NOW + 10.0
    for _ in range(64):
        at_ms += chance.expovariate(1 / 0.3)
        fleet.send(chance.randrange(len(fleet.pickers)), tokens, at_ms)
    return fleet.imbalance()


@pytest.mark.parametrize("lag_ms", [1, 5, 1000], ids="heard after {} ms".format)
@pytest.mark.parametrize("tokens", [20, 200, 2000], ids="{} tokens".format)
@pytest.mark.parametrize("processes", [1, 4])
def test_a_burst_on_idle_replicas_is_spread(processes: int, tokens: int, lag_ms: float) -> None:
    spreads = sorted(burst(Fleet(processes, lag_ms), tokens, seed) for seed in range(20))
    assert spreads[-1] <= 1.25
    assert sum(spreads) / len(spreads) <= 1.2


@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize("places", [(0, 1), (2, 7), (7, 0)], ids=str)
def test_two_equals_share_evenly_whatever_their_places(processes: int, places: tuple[int, int]) -> None:
    fleet = Fleet(processes, 5)
    for one in fleet.pickers:
        for number, address in enumerate(REPLICAS):
            one.weighed(address, 1000 if number in places else 0)
    chance, at_ms = random.Random(5), NOW + 10.0
    for _ in range(1000):
        at_ms += 1.0
        fleet.send(chance.randrange(processes), chance.randrange(20, 3000), at_ms)
    first, second = (fleet.counts[REPLICAS[place]] for place in places)
    assert first + second == 1000
    assert abs(first - second) / 1000 <= 0.06


def test_equals_take_turns_exactly() -> None:
    one, work = picker(), Work(prompt_tokens=1)
    picked = [one.pick(work, NOW).chosen[0].address for _ in range(24)]
    assert sorted(picked[:8]) == REPLICAS
    assert picked == picked[:8] * 3


def test_without_the_mirror_they_would_herd() -> None:
    mirrored, plain = (
        [burst(Fleet(4, 5, mirrored=mirrored), 8000, seed) for seed in range(20)] for mirrored in (True, False)
    )
    assert sum(mirrored) < sum(plain)
    assert sum(mirrored) / len(mirrored) <= 1.2
    assert max(mirrored) <= 1.25
    assert max(plain) > 1.25


def test_what_was_mirrored_is_taken_back() -> None:
    one = picker(others=3)
    work = Work(prompt_tokens=1400)
    before = one.pick(work, NOW + 1).chosen[0].parts
    first = one.pick(work, NOW + 1).chosen[0].address
    one.sent(first, work, NOW + 1)
    waits = {at: one._replicas[first].queued.wait_ms(NOW + at) for at in (1, 12)}
    one.pick(work, NOW + 12)
    waits[13] = one._replicas[first].queued.wait_ms(NOW + 12)
    assert waits[1] == pytest.approx(4 * before["prefill"] * 1000, rel=0.1)
    assert waits[13] < waits[12] / 3


def test_alone_nothing_is_mirrored() -> None:
    one, work = picker(), Work(prompt_tokens=1400)
    address = one.pick(work, NOW).chosen[0].address
    one.sent(address, work, NOW)
    assert one._replicas[address].queued.mirrored == 0

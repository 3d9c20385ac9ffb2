"""Whatever the policy, calls are conserved, times are in order, and a seed gives its figures."""

from __future__ import annotations

import itertools

import pytest

from simulator.lab.conditions import Conditions
from simulator.lab.measure import measure
from simulator.lab.policies import POLICIES
from simulator.lab.replay import Replay
from tests.lab.conftest import ReplayOf, small_engine


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("pickers", [1, 4])
def test_every_call_ends_once_and_times_are_in_order(replay_of: ReplayOf, policy: str, pickers: int) -> None:
    replay = replay_of(policy, pickers=pickers, replicas=3)
    for call in replay.calls:
        assert call.sent_at is not None
        assert call.first_token_at is not None
        assert call.finished_at is not None
        assert call.arrived_at <= call.sent_at < call.first_token_at <= call.finished_at
        assert call.replica in range(3)
    engines = [replica.engine for replica in replay.fleet]
    assert sum(c.output_tokens for c in replay.calls) == sum(e.counters.generation_tokens for e in engines)
    assert sum(c.prompt_tokens for c in replay.calls) == sum(e.counters.prompt_tokens for e in engines)
    assert sum(c.cached_tokens for c in replay.calls) == sum(e.counters.cached_prompt_tokens for e in engines)
    assert {0} == {e.running + e.waiting for e in engines}


def figures(replay: Replay) -> dict[str, object]:
    return measure(replay, Conditions(), policy="p", load=1.0, seed=0).as_json()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_seed_gives_its_figures(replay_of: ReplayOf, policy: str) -> None:
    assert figures(replay_of(policy, seed=1)) == figures(replay_of(policy, seed=1))
    assert figures(replay_of(policy, seed=1)) != figures(replay_of(policy, seed=2))


def test_calls_that_nobody_has_room_for_wait_in_order_and_their_wait_counts(replay_of: ReplayOf) -> None:
    replay = replay_of("pick", rate=30.0, replicas=2, engine=small_engine())
    held = [c for c in replay.calls if c.sent_at is not None and c.sent_at > c.arrived_at]
    assert held
    assert [c.number for c in held] == sorted(c.number for c in held)
    sent = [c.sent_at for c in replay.calls]
    assert sent == sorted(sent)
    assert all(c.first_token_at > c.sent_at for c in held)


def test_a_slow_replica_is_slow(replay_of: ReplayOf) -> None:
    replay = replay_of("round_robin", rate=1.0, replicas=2, slow_replica=0.5)
    seconds = [0.0, 0.0]
    for replica in replay.fleet:
        counters = replica.engine.counters
        seconds[replica.number] = counters.busy_seconds / counters.steps
    assert seconds[0] > 1.7 * seconds[1]


def test_samples_are_as_old_as_their_delivery(replay_of: ReplayOf, monkeypatch: pytest.MonkeyPatch) -> None:
    ages: list[float] = []
    gaps: dict[int, list[int]] = {}

    def remember(self, replica, sample, now):
        from simulator.lab.replica import EPOCH_MS

        ages.append(EPOCH_MS + now * 1000 - sample.sampled_at_ms)
        gaps.setdefault(replica, []).append(sample.sampled_at_ms)
        original(self, replica, sample, now)

    kind = POLICIES["pick"].build
    original = kind.sampled
    monkeypatch.setattr(kind, "sampled", remember)
    replay_of("pick", sample_ms=100.0)
    assert 10.0 <= min(ages) < 15.0
    assert 55.0 < max(ages) <= 61.0
    for stamps in gaps.values():
        assert {90 <= later - earlier <= 111 for earlier, later in itertools.pairwise(stamps)} == {True}


def test_pickers_learn_of_each_others_dispatches(replay_of: ReplayOf) -> None:
    alone = replay_of("pick", rate=8.0, pickers=4, share_ms=(1e9, 1e9))
    shared = replay_of("pick", rate=8.0, pickers=4)
    assert figures(shared)["ttft_p90_ms"] < figures(alone)["ttft_p90_ms"]


def test_a_picker_gathers_what_it_tells_for_a_while(replay_of: ReplayOf, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    kind = POLICIES["pick"].build
    monkeypatch.setattr(kind, "sent_elsewhere", lambda self, record, now: heard.append(now))
    replay_of("pick", rate=200.0, pickers=2, share_ms=(0.0, 0.0), share_gap_ms=100.0)
    assert len(heard) == 160
    assert len(set(heard)) < 80


def test_dispatches_take_their_time(replay_of: ReplayOf) -> None:
    replay = replay_of("round_robin", rate=0.05, dispatch_ms=(500.0, 500.0))
    least = min(c.first_token_at - c.arrived_at for c in replay.calls)
    assert least > 0.5

"""What defines each baseline."""

from __future__ import annotations

import random

import pytest

from simulator.lab.call import Call
from simulator.lab.policies import POLICIES
from simulator.lab.policies.weighted_sum import WeightedSum
from simulator.lab.policy import Policy, Setting
from simulator.lab.presets import ENGINES
from simulator.lab.replica import Replica
from tests.lab.conftest import ReplayOf


def policy_of(name: str, replicas: int = 4) -> Policy:
    fleet = [Replica(number, ENGINES["8b"]) for number in range(replicas)]
    return POLICIES[name].build(Setting(ENGINES["8b"], fleet, random.Random(1)))


def call_of(number: int = 0, blocks: tuple[int, ...] = ()) -> Call:
    return Call(number, 0.0, max(1, 512 * len(blocks)), 10, blocks)


def send(policy: Policy, replica: int, blocks: tuple[int, ...] = ()) -> Call:
    call = call_of(blocks=blocks)
    policy.sent(call, replica, 0.0)
    return call


def choices(policy: Policy, count: int, blocks: tuple[int, ...] = ()) -> list[int | None]:
    return [policy.choose(call_of(n, blocks), 0.0) for n in range(count)]


def test_round_robin_goes_around() -> None:
    chosen = choices(policy_of("round_robin"), 8)
    assert sorted(chosen[:4]) == [0, 1, 2, 3]
    assert chosen[:4] == chosen[4:]


def test_random_is_even() -> None:
    chosen = choices(policy_of("random"), 4000)
    assert all(900 < chosen.count(replica) < 1100 for replica in range(4))


def test_power_of_two_never_takes_the_most_loaded_alone() -> None:
    policy = policy_of("power_of_two")
    send(policy, 2)
    chosen = choices(policy, 400)
    assert 2 not in chosen
    assert {0, 1, 3} == set(chosen)


def test_least_request_takes_the_fewest_in_flight_and_equals_by_chance() -> None:
    policy = policy_of("least_request")
    sent = [send(policy, replica) for replica in (0, 0, 1, 2, 3)]
    assert set(choices(policy, 100)) == {1, 2, 3}
    policy.ended(sent[2], 1, 1.0)
    assert set(choices(policy, 20)) == {1}


def test_longest_prefix_goes_to_the_match_however_loaded() -> None:
    policy = policy_of("longest_prefix")
    for _ in range(50):
        send(policy, 2, (0, 1, 2))
    send(policy, 1, (0, 9))
    assert set(choices(policy, 20, (0, 1, 2, 3))) == {2}
    assert set(choices(policy, 50, (7, 8))) == {0, 3}


def test_second_block_hash_is_blind_to_load_and_to_the_first_block() -> None:
    policy = policy_of("second_block_hash")
    [home, *_] = choices(policy, 1, (0, 5, 6))
    for _ in range(99):
        send(policy, home or 0, (0, 5, 6))
    assert set(choices(policy, 9, (0, 5, 77))) == {home}
    assert len({choices(policy, 1, (0, second))[0] for second in range(50)}) == 4
    assert len({choices(policy, 1, (block,))[0] for block in range(50)}) == 4
    assert len(set(choices(policy, 50))) == 4


def test_cache_aware_follows_a_long_match() -> None:
    policy = policy_of("cache_aware")
    for _ in range(30):
        send(policy, 2, (0, 1, 2))
    assert set(choices(policy, 20, (0, 1, 2, 3))) == {2}


def test_cache_aware_goes_by_load_below_its_ratio() -> None:
    policy = policy_of("cache_aware")
    send(policy, 2, (0, 1, 2))
    assert set(choices(policy, 50, (0, 1, 2, *range(10, 17)))) == {0, 1, 3}  # 3 of 10 blocks match: not above 0.3
    assert set(choices(policy, 50, (0, 1, 2, *range(10, 16)))) == {2}


def test_cache_aware_balances_where_loads_are_far_apart() -> None:
    policy = policy_of("cache_aware")
    for _ in range(65):
        send(policy, 2, (0, 1, 2))
    assert 2 not in choices(policy, 50, (0, 1, 2))


def test_books_forget_what_a_cache_would_have_evicted() -> None:
    policy = policy_of("longest_prefix")
    send(policy, 2, (0, 1, 2))
    send(policy, 2, tuple(range(1000, 2897)))  # 1,897 blocks: with 3 they fill a cache of 1,900
    assert set(choices(policy, 20, (0, 1, 2))) == {2}
    send(policy, 2, (5000,))
    assert policy.matched(call_of(blocks=(0, 1, 2)), 2) == 2


@pytest.mark.parametrize(
    ("waiting", "kv_used", "chosen"),
    [
        ((0, 0, 0, 0), (0.5, 0.5, 0.5, 0.5), {2}),
        ((0, 0, 9, 0), (0.5, 0.5, 0.5, 0.5), {2}),  # 3 for the prefix against 2 for the queue
        ((0, 9, 9, 9), (0.1, 0.5, 0.8, 0.5), {0}),
        ((0, 0, 0, 0), (0.5, 0.5, 0.5, 0.0), {2}),
    ],
    ids=["prefix", "prefix against queue", "queue and KV against prefix", "prefix against KV"],
)
def test_weighted_sum_adds_prefix_queue_and_kv(
    waiting: tuple[int, ...], kv_used: tuple[float, ...], chosen: set[int]
) -> None:
    policy = policy_of("weighted_sum")
    assert isinstance(policy, WeightedSum)
    policy._waiting, policy._kv_used = list(waiting), list(kv_used)
    send(policy, 2, (0, 1))
    assert set(choices(policy, 10, (0, 1))) == chosen


def test_the_oracle_sees_queues_that_nobody_told_it_of() -> None:
    fleet = [Replica(number, ENGINES["8b"]) for number in range(3)]
    oracle = POLICIES["oracle"].build(Setting(ENGINES["8b"], fleet, random.Random(1)))
    for replica, tokens in zip(fleet, (50_000, 900, 20_000), strict=True):
        replica.submit(Call(0, 0.0, tokens, 10, ()), 0.0)
        replica.engine.advance(0.001)
    assert oracle.choose(call_of(), 0.001) == 1


def test_the_oracle_counts_blocks_that_are_cached_or_queued() -> None:
    fleet = [Replica(number, ENGINES["8b"]) for number in range(3)]
    oracle = POLICIES["oracle"].build(Setting(ENGINES["8b"], fleet, random.Random(1)))
    blocks = tuple(range(40))
    fleet[1].submit(Call(0, 0.0, 40 * 512, 1, blocks), 0.0)
    fleet[1].engine.advance(60.0)
    longer = Call(1, 60.0, 41 * 512, 10, (*blocks, 99))
    assert oracle.choose(longer, 60.0) == 1
    oracle.sent(Call(2, 60.0, 512 * 2, 10, (500, 501)), 2, 60.0)
    assert oracle.choose(Call(3, 60.0, 512 * 3, 10, (500, 501, 502)), 60.0) in {0, 2}


def test_pick_beats_least_request_where_prefixes_repeat(replay_of: ReplayOf) -> None:
    cached = {
        name: sum(c.cached_tokens for c in replay_of(name).calls) for name in ("pick", "least_request", "cache_aware")
    }
    assert cached["pick"] > 1.5 * cached["least_request"]
    assert cached["cache_aware"] > 1.5 * cached["least_request"]

"""Operators' keys, typed with plain redis-cli, reach Envoy."""

from __future__ import annotations

import pytest

from tests.conftest import wait_until
from tests.up.cluster import tidegate
from tests.up.pair import CLUSTER, Pair


@pytest.mark.envoy
def test_pinned_weights_give_their_shares_and_deleting_them_gives_automatic_ones(pair: Pair) -> None:
    pair.up.redis("HSET", f"tidegate:weight:{CLUSTER}", pair.one, "100", pair.two, "900")
    wait_until(lambda: 10 <= pair.shares(200)[pair.one] <= 30, what="traffic following the weights")
    share = pair.shares(1000)[pair.one] / 1000
    assert 0.07 <= share <= 0.13
    assert all(pair.pins().values())

    pair.up.redis("HSET", f"tidegate:weight:{CLUSTER}", pair.one, "0")
    wait_until(lambda: pair.shares(20)[pair.one] == 0, what="0 stopping traffic")
    wait_until(lambda: f"{pair.one}::health_flags::/eds_status_draining" in pair.envoy(), what="0 at Envoy")
    assert pair.shares(100)[pair.one] == 0

    pair.automatic_at_once()
    pair.up.redis("HDEL", f"tidegate:weight:{CLUSTER}", pair.one, pair.two)
    wait_until(lambda: not any(pair.pins().values()), what="the pins being gone")
    wait_until(lambda: 40 <= pair.shares(100)[pair.one] <= 60, what="equal automatic weights")


@pytest.mark.envoy
def test_a_banana_changes_nothing_and_is_explained(pair: Pair) -> None:
    pair.up.redis("HSET", f"tidegate:weight:{CLUSTER}", pair.one, "250")
    wait_until(lambda: pair.pins()[pair.one] and pair.effective(pair.one) == "250", what="the weight being in force")
    pair.up.redis("HSET", f"tidegate:weight:{CLUSTER}", pair.one, "banana")
    wait_until(lambda: "banana" in pair.up.redis("HGETALL", "tidegate:rejected"), what="the rejection")
    assert pair.effective(pair.one) == "250"
    assert any("banana" in why for why in pair.up.status()["rejected"].values())
    pair.up.redis("HDEL", f"tidegate:weight:{CLUSTER}", pair.one)
    wait_until(lambda: not pair.up.report()["rejected"], what="the rejection being withdrawn")


@pytest.mark.envoy
def test_the_command_line_writes_the_same_keys(pair: Pair) -> None:
    where = ("--redis-url", pair.up.ready["redis"], "--config", pair.up.ready["config"])
    assert tidegate("weight", "set", CLUSTER, pair.one, "7", *where).returncode == 0
    assert pair.up.redis("HGET", f"tidegate:weight:{CLUSTER}", pair.one) == "7"
    unknown = tidegate("weight", "set", CLUSTER, "127.0.0.1:1", "7", *where)
    assert unknown.returncode == 2
    assert pair.one in unknown.stderr
    assert tidegate("weight", "set", CLUSTER, pair.one, "1001", *where).returncode == 2
    assert tidegate("weight", "clear", CLUSTER, *where).returncode == 0
    assert pair.up.redis("HLEN", f"tidegate:weight:{CLUSTER}") == "0"
    assert tidegate("drain", CLUSTER, pair.two, "--reason", "kernel update", *where).returncode == 0
    wait_until(lambda: pair.shares(10)[pair.two] == 0, what="the drained replica getting nothing")
    assert tidegate("undrain", CLUSTER, pair.two, *where).returncode == 0
    wait_until(lambda: pair.shares(10)[pair.two] > 0, what="the undrained replica serving")

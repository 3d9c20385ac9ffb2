"""Tidegate in front of two real vLLM servers: what the simulator imitates, checked on the original.

The tests share the servers and run in file order; the last one kills a replica.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.conftest import wait_until
from tests.vllm import by_hand
from tests.vllm.conftest import PICK, WEIGHTED, Gateway
from tests.vllm.replica import MAX_RUNNING, MODELS, Replica

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

LONG = {"max_tokens": 500, "ignore_eos": True}


@contextmanager
def under_way(gateway: Gateway, count: int) -> Iterator[list[int]]:
    """`count` long chats run while the block does; yields their statuses, complete after the block."""
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(gateway.chat(PICK, 200, **LONG).status_code))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        for thread in threads:
            thread.join()


def served(replica: Replica) -> float:
    """Requests that vLLM itself counts as finished."""
    lines = replica.get("/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:request_success_total{"))


def shares(gateway: Gateway, replicas: list[Replica], count: int) -> list[int]:
    """How many of `count` chats each replica finished, by vLLM's own counters."""
    before = [served(replica) for replica in replicas]
    assert {gateway.chat(WEIGHTED, max_tokens=1).status_code for _ in range(count)} == {200}
    return [round(served(replica) - old) for replica, old in zip(replicas, before, strict=True)]


def in_envoy(gateway: Gateway, address: str) -> str:
    """The weight that Envoy has of a replica."""
    lines = httpx.get(f"{gateway.ready['envoy_admin']}/clusters").text.splitlines()
    start = f"{WEIGHTED}::{address}::weight::"
    return next(line.removeprefix(start) for line in lines if line.startswith(start))


@pytest.mark.parametrize("model", MODELS)
def test_chat_is_answered_by_vllm(gateway: Gateway, model: str) -> None:
    answer = gateway.chat(model, words=10, max_tokens=5, ignore_eos=True)
    assert answer.status_code == 200, answer.text
    usage = answer.json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (12, 5)
    assert answer.json()["system_fingerprint"].startswith("vllm-0.32.0")


@pytest.mark.parametrize("model", MODELS)
def test_stream_ends_with_usage(gateway: Gateway, model: str) -> None:
    answer = gateway.chat(model, max_tokens=6, ignore_eos=True, stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    chunks = [json.loads(event) for event in events[:-1]]
    texts = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]]
    assert events[-1] == "[DONE]"
    assert len("".join(texts).split()) == 6  # vLLM may send several tokens in one event
    assert chunks[-1]["usage"]["completion_tokens"] == 6


def test_idle_vllm_is_known_with_the_size_of_its_cache(gateway: Gateway, replicas: list[Replica]) -> None:
    def idle(address: str) -> bool:
        sample = gateway.sample(PICK, address)
        return sample.get("running") == sample.get("waiting") == "0"

    for replica in replicas:
        wait_until(lambda: idle(replica.address), what=f"{replica.address} idle in Redis")  # noqa: B023
        sample = gateway.sample(PICK, replica.address)
        assert (sample["kv_capacity_tokens"], sample["block_size"]) == ("8192", "128")


def test_running_waiting_and_cache_use_reach_redis(gateway: Gateway, replicas: list[Replica]) -> None:
    wanted = 2 * MAX_RUNNING + 2

    def seen() -> bool:
        samples = [gateway.sample(PICK, replica.address) for replica in replicas]
        running = [int(sample.get("running", 0)) for sample in samples]
        waiting = sum(int(sample.get("waiting", 0)) for sample in samples)
        used = min(float(sample.get("kv_used_ratio", 0)) for sample in samples)
        return running == [MAX_RUNNING] * 2 and waiting > 0 and used > 0.05

    with under_way(gateway, wanted) as statuses:
        wait_until(seen, deadline_seconds=60, what="a full fleet in Redis")
    assert [200] * wanted == statuses


def test_samples_agree_with_a_page_read_by_hand(gateway: Gateway, replicas: list[Replica]) -> None:
    """Steady load for longer than the agent's window of 60 s, then both look at the same moment."""
    pages: list[list[by_hand.Page]] = [[] for _ in replicas]
    with steady_load(gateway, 2 * MAX_RUNNING + 2):
        until = time.monotonic() + 75
        while time.monotonic() < until:
            for replica, seen in zip(replicas, pages, strict=True):
                seen.append(by_hand.read(replica))
            time.sleep(1)
        for replica, seen in zip(replicas, pages, strict=True):
            check_agreement(gateway, replica, [page for page in seen if page.at > seen[-1].at - 60])


def check_agreement(gateway: Gateway, replica: Replica, pages: list[by_hand.Page]) -> None:
    """Queues and cache lie between two readings around the sample; rates are of the same minute."""
    before = by_hand.read(replica)
    sample = gateway.sample(PICK, replica.address)
    after = by_hand.read(replica)
    low, high = sorted((before.running, after.running))
    assert low - 1 <= int(sample["running"]) <= high + 1
    low, high = sorted((before.waiting, after.waiting))
    assert low - 1 <= int(sample["waiting"]) <= high + 1
    low, high = sorted((before.kv, after.kv))
    assert low - 0.15 <= float(sample["kv_used_ratio"]) <= high + 0.15
    assert float(sample["tokens_per_second"]) == pytest.approx(by_hand.tokens_per_second(pages), rel=0.15)
    low, high = by_hand.latency_bucket_of_p99(pages)
    assert low <= float(sample["latency_p99_ms"]) / 1000 <= high


@contextmanager
def steady_load(gateway: Gateway, count: int) -> Iterator[None]:
    """`count` chats under way at all times until the block ends."""
    end = threading.Event()

    def keep_asking() -> None:
        while not end.is_set():
            gateway.chat(PICK, 50, max_tokens=100, ignore_eos=True)

    threads = [threading.Thread(target=keep_asking) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


def test_weights_of_redis_cli_shift_the_traffic(gateway: Gateway, replicas: list[Replica]) -> None:
    few, most = replicas
    key = f"tidegate:weight:{WEIGHTED}"
    gateway.redis("HSET", key, few.address, "100", most.address, "900")
    wait_until(lambda: in_envoy(gateway, few.address) == "100", what="the pinned weight in Envoy")
    got_few, got_most = shares(gateway, replicas, 200)
    assert got_few + got_most == 200
    assert 0.07 <= got_few / 200 <= 0.13

    gateway.redis("HSET", key, few.address, "0")
    wait_until(lambda: shares(gateway, replicas, 10)[0] == 0, what="weight 0 in Envoy")
    assert shares(gateway, replicas, 50) == [0, 50]

    gateway.redis("HDEL", key, few.address, most.address)
    wait_until(lambda: shares(gateway, replicas, 10)[0] > 0, what="the automatic weight in Envoy")
    assert min(shares(gateway, replicas, 50)) > 0


def test_killed_replica_costs_no_later_request(gateway: Gateway, replicas: list[Replica]) -> None:
    killed, left = replicas
    killed.kill()
    before = served(left)
    answers = [gateway.chat(model, max_tokens=1).status_code for _ in range(20) for model in MODELS]
    assert answers == [200] * 40
    assert served(left) - before == 40
    wait_until(lambda: gateway.sample(PICK, killed.address).get("status") == "unreachable", what="unreachable in Redis")

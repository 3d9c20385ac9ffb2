"""What instances of ext_proc tell one another arrives, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.conftest import until
from tidegate.domain.errors import StoreUnavailable
from tidegate.domain.pick.record import DispatchRecord
from tidegate.store.memory import MemoryStore
from tidegate.store.picks import PickBatch, decode_picks, encode_picks
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore

RECORD = DispatchRecord("10.0.0.1:8000", 1.8e12, 1000.5, 1200, 2, (2**64 - 1, 0), (300, 1000))
BATCH = PickBatch("host:1", [("phi-3", RECORD), ("qwen", DispatchRecord("10.0.0.2:8000", 1.8e12, 1, 2))])


@pytest.fixture(params=["redis", "memory"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore(lambda: 0)
        return
    store = RedisStore(request.getfixturevalue("redis_url"), timeout_seconds=60.0)
    yield store
    await store.close()


async def test_every_reader_hears_a_batch(store: Store) -> None:
    heard: dict[int, PickBatch] = {}

    async def listen(number: int) -> None:
        async for batch in store.shared():
            heard[number] = batch

    async def all_heard() -> bool:
        await store.share(BATCH)
        return len(heard) == 2

    readers = [asyncio.create_task(listen(number)) for number in range(2)]
    await until(all_heard, what="both readers hearing")
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    for batch in heard.values():
        assert (batch.instance, list(batch.picks)) == (BATCH.instance, list(BATCH.picks))


async def test_batches_end_with_the_store(store: Store) -> None:
    reader = asyncio.ensure_future(anext(aiter(store.shared())))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await reader


def test_a_batch_is_read_as_it_was_written() -> None:
    read = decode_picks(encode_picks(BATCH))
    assert read is not None
    assert [tuple(pick) for pick in read.picks] == list(BATCH.picks)


@pytest.mark.parametrize("message", [b"", b"{}", b"\xc1", b"\x92\xa1a", msgspec.msgpack.encode(["a", [["c", 1]]])])
def test_what_is_no_batch_is_none(message: bytes) -> None:
    assert decode_picks(message) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"at_ms": float("nan")},
        {"at_ms": -1.0},
        {"at_ms": float("inf")},
        {"prefill_tokens": -1.0},
        {"prefill_tokens": float("nan")},
        {"kv_tokens": -1},
        {"kv_tokens": 10**12},
        {"prompts": 0},
        {"marks": (1,), "ends": ()},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_is_left_out(fields: dict[str, Any]) -> None:
    odd = msgspec.structs.replace(RECORD, **fields)
    read = decode_picks(encode_picks(PickBatch("host:1", [("phi-3", odd), ("phi-3", RECORD)])))
    assert read is not None
    assert [record for _, record in read.picks] == [RECORD]

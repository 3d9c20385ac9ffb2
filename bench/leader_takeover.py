"""From `kill -9` of the leading controller to a weight that another one wrote: `python -m bench.leader_takeover`.

Two processes with a controller each on a real Redis. The operator's order comes with the kill; the time is until
`effective:` holds it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.redis_process import redis_server
from tidegate.store.redis import RedisStore

TRIALS: Final = 5
TARGET_SECONDS: Final = 3.0
ADDRESS: Final = "10.0.0.5:8000"
CHILD: Final = """
import asyncio, sys
from controller.loop import run
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.store.redis import RedisStore
topology = Topology((Cluster("c", ("m",), endpoints=(Endpoint("10.0.0.5:8000"),)),))
asyncio.run(run(RedisStore(sys.argv[1]), topology, instance=sys.argv[2]))
"""


def measure(trials: int = TRIALS) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, redis_server(Path(name)) as (port, _):
        times = asyncio.run(_trials(f"redis://127.0.0.1:{port}/0", trials))
    return [
        {"name": "takeover: median", "value": sorted(times)[len(times) // 2], "unit": "s", "target": None},
        {"name": "takeover: longest", "value": max(times), "unit": "s", "target": TARGET_SECONDS},
    ]


async def _trials(url: str, trials: int) -> list[float]:
    store, children, times = RedisStore(url), {}, []
    try:
        for number in range(trials + 1):
            name = f"n{number}"
            children[name] = subprocess.Popen([sys.executable, "-c", CHILD, url, name])  # noqa: ASYNC220
            await _until(lambda name=name: _lives(store, name))
            if number:
                times.append(await _trial(store, children, number))
    finally:
        for child in children.values():
            child.kill()
            child.wait()
        await store.close()
    return times


async def _trial(store: RedisStore, children: dict[str, subprocess.Popen[bytes]], number: int) -> float:
    leader = await store.leader()
    assert leader is not None
    began = time.monotonic()
    children.pop(leader.instance).kill()
    await store.set_field("weight:c", ADDRESS, str(number))
    await _until(lambda: _holds(store, number))
    return time.monotonic() - began


async def _lives(store: RedisStore, name: str) -> bool:
    return name in (await store.present()).get("controller", {})


async def _holds(store: RedisStore, weight: int) -> bool:
    return (await store.effective(["c"]))["c"].get(ADDRESS) == weight


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))

"""Rollouts on a real Envoy: `python -m bench.rollouts`.

`tidegate up` with a model in two versions; one rollout after the other, whose canary has faults, is slow, is as good as
stable, gets hardly any request, or meets a client that sends nonsense. Users come in at a steady pace, and this process
keeps its own figures of what they got. The moment of enough evidence is when the rule, asked about these figures alone,
finds the canary worse from there on, or when the requests that the controller decided on had been answered, if that is
earlier; the time is from there until the last request that was sent to the canary.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench.gateway import gateway
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.ending import Ending
from tidegate.domain.outcomes.sketch import key_of
from tidegate.domain.outcomes.version import Figures
from tidegate.domain.rollout.course import GOING, Phase, State
from tidegate.domain.rollout.plan import read_plan
from tidegate.domain.rollout.rule import ALARMS, Verdict, judge, judged
from tidegate.domain.wire import CLUSTER_HEADER
from tidegate.store.redis import RedisStore
from tidegate.store.rollouts import FIGURES, ORDER, STATE, decode_evidence, decode_state, rollout_key

MODEL: Final = "m"
STABLE: Final = "stable"
CANARY: Final = "canary"
PER_SECOND: Final = 60
MEDIAN_SECONDS: Final = 0.5
SPREAD: Final = 0.4
TARGET_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 180.0
BURST: Final = 600
FEW: Final = 12
PAGE: Final = "".join(
    f'# TYPE vllm:{name} gauge\nvllm:{name}{{model_name="m"}} 0\n'
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
)


@dataclass(frozen=True)
class Scenario:
    """A canary with so many faults and so many times stable's time, in a rollout of these steps."""

    name: str
    ends: Phase | None
    faults: float = 0.0
    slower: float = 1.0
    steps: str = "5,50,100"
    hold: str = "10s"
    burst: bool = False
    few: bool = False


SCENARIOS: Final = (
    Scenario("20 % faults at 5 %", Phase.ROLLED_BACK, faults=0.2, hold="5m"),
    Scenario("twice as slow at 5 %", Phase.ROLLED_BACK, slower=2.0, hold="5m"),
    Scenario("as good as stable", Phase.DONE, steps="2,10,50,100", hold="5s"),
    Scenario("12 requests, all of them faults", None, faults=1.0, hold="3s", few=True),
    Scenario("a client that gets 600 times 400 from the canary", Phase.DONE, burst=True),
)


@dataclass
class Own:
    """What the client saw: by moment sent and ended, the version, the status and milliseconds."""

    answers: list[tuple[float, float, str, int, float]] = field(default_factory=list)

    def enough_at(self, share: float, since: float, decided: int) -> float | None:
        """From when on the rule finds the canary worse by these figures, or at the latest when what decided was there.

        `decided` is how many judged requests of the canary that was.
        """
        limits = read_plan({"to": CANARY}, ((STABLE, 1000),), (STABLE, CANARY)).limits
        seen, enough = {STABLE: Figures(), CANARY: Figures()}, None
        for sent, ended, version, status, ms in sorted(self.answers, key=lambda one: one[1]):
            if sent < since or version not in seen:
                continue
            _count(seen[version], status, ms)
            if version == CANARY:
                worse = judge(seen[CANARY], seen[STABLE], limits, share).verdict is Verdict.WORSE
                enough = (enough or ended) if worse else None
            if judged(seen[CANARY]) >= decided:
                return enough or ended
        return enough

    def last_of_the_canary(self) -> float:
        return max((sent for sent, _, version, _, _ in self.answers if version == CANARY), default=0.0)

    def of(self, version: str) -> int:
        return sum(1 for answer in self.answers if answer[2] == version)


def _count(figures: Figures, status: int, ms: float) -> None:
    if status == 200:
        figures.counts[Ending.SERVED.place] += 1
        figures.times[key_of(ms)] = figures.times.get(key_of(ms), 0) + 1
    elif status == 500:
        figures.counts[Ending.FAULT.place] += 1


@dataclass
class Engine:
    """A version that does as the scenario says; a request with `x-bad` gets 400."""

    rng: random.Random
    faults: float = 0.0
    slower: float = 1.0

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        if "x-bad" in request.headers:
            return web.json_response({"error": {"message": "nonsense"}}, status=400)
        if self.rng.random() < self.faults:
            return web.json_response({"error": {"message": "broken"}}, status=500)
        await asyncio.sleep(MEDIAN_SECONDS * self.slower * self.rng.lognormvariate(0, SPREAD))
        return web.json_response({"object": "chat.completion", "choices": []})


@asynccontextmanager
async def _engines() -> AsyncIterator[dict[str, tuple[str, Engine]]]:
    """By version, its address and the engine."""
    runners, found = [], {}
    for number, name in enumerate((STABLE, CANARY)):
        engine, app = Engine(random.Random(f"{name} {number}")), web.Application()
        app.router.add_get("/{path:.*}", _page)
        app.router.add_post("/{path:.*}", engine.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        found[name] = (f"127.0.0.1:{runner.addresses[0][1]}", engine)
    try:
        yield found
    finally:
        for runner in runners:
            await runner.cleanup()


async def _page(request: web.Request) -> web.Response:
    if request.path == "/v1/models":
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
    return web.Response(text=PAGE)


@contextmanager
def _cluster(folder: Path, addresses: dict[str, str]) -> Iterator[dict[str, Any]]:
    """`tidegate up` before the engines; what its ready file says."""
    config = {
        "gateway": {"listen": "127.0.0.1:0", "expose_routing": True},
        "clusters": [
            {"name": STABLE, "models": [MODEL], "endpoints": [{"address": addresses[STABLE]}]},
            {"name": CANARY, "models": [], "endpoints": [{"address": addresses[CANARY]}]},
        ],
        "splits": {MODEL: {STABLE: 1000, CANARY: 0}},
    }
    with gateway(folder, config) as ready:
        yield json.loads(ready.read_text())


class Bench:
    """One gateway; scenarios run one after the other."""

    def __init__(self, session: aiohttp.ClientSession, ready: dict[str, Any], engines: dict[str, Engine]) -> None:
        self._session, self._gateway, self._engines = session, ready["gateway"], engines
        self._store = RedisStore(ready["redis"], timeout_seconds=20.0)
        self._rng = random.Random(11)

    async def close(self) -> None:
        await self._store.close()

    async def run(self, scenario: Scenario) -> list[dict[str, Any]]:
        """Rows of one rollout."""
        self._engines[CANARY].faults, self._engines[CANARY].slower = scenario.faults, scenario.slower
        await self._fresh()
        await self._start(scenario)
        own, began = Own(), time.monotonic()
        stop = asyncio.Event()
        load = asyncio.create_task(self._load(own, scenario, stop))
        burst = asyncio.create_task(self._burst(own)) if scenario.burst else None
        state = await self._ended(scenario, began)
        if state.phase is Phase.ROLLED_BACK:
            await asyncio.sleep(2)
        stop.set()
        await asyncio.gather(load, *([burst] if burst else []))
        evidence = decode_evidence((await self._store.rollouts([MODEL]))[0].get(MODEL, {}).get(FIGURES))
        return _rows(scenario, own, state, began, judged(evidence.seen(CANARY)))

    async def _fresh(self) -> None:
        """All for stable, and no rollout."""
        state = await self._state()
        if state is not None and state.phase in GOING:
            await self._store.set_field(rollout_key(MODEL), ORDER, "abort")
            while (state := await self._state()) is not None and state.phase in GOING:
                await asyncio.sleep(0.05)
        fields = (await self._store.rollouts([MODEL]))[0].get(MODEL, {})
        gone = [FieldChange(key=rollout_key(MODEL), field=name, value=None) for name in fields]
        gone += [FieldChange(key=f"split:{MODEL}", field=name, value=None) for name in (STABLE, CANARY)]
        await self._store.change_fields(gone, ())
        await asyncio.sleep(2.0)

    async def _start(self, scenario: Scenario) -> None:
        plan = {"to": CANARY, "steps": scenario.steps, "hold": scenario.hold}
        fields = [FieldChange(key=rollout_key(MODEL), field=name, value=text) for name, text in plan.items()]
        await self._store.change_fields(fields, ())
        while await self._state() is None:
            await asyncio.sleep(0.05)

    async def _state(self) -> State | None:
        return decode_state((await self._store.rollouts([MODEL]))[0].get(MODEL, {}).get(STATE))

    async def _ended(self, scenario: Scenario, began: float) -> State:
        """The state when the rollout is over, or when it has said for some seconds that it decides nothing."""
        longest = 15.0 if scenario.few else LONGEST_SECONDS
        while True:
            state = await self._state()
            if state is not None and (state.phase not in GOING or time.monotonic() - began > longest):
                return state
            await asyncio.sleep(0.05)

    async def _load(self, own: Own, scenario: Scenario, stop: asyncio.Event) -> None:
        """Users at a steady pace; for `few` none any more once twelve have met the canary."""
        tasks, due = set[asyncio.Task[None]](), time.monotonic()
        while not stop.is_set() and not (scenario.few and own.of(CANARY) >= FEW):
            tasks.add(asyncio.create_task(self._ask(own, f"user-{self._rng.randrange(10**9)}")))
            tasks = {task for task in tasks if not task.done()}
            due += 1 / PER_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*tasks)

    async def _burst(self, own: Own) -> None:
        """One client whose version is the canary asks nonsense, many times."""
        await asyncio.sleep(2.0)
        for _ in range(BURST // 20):
            headers = {"x-bad": "1", "x-tidegate-version": CANARY}
            await asyncio.gather(*(self._ask(own, "nonsense", headers) for _ in range(20)))

    async def _ask(self, own: Own, user: str, headers: dict[str, str] | None = None) -> None:
        sent = time.monotonic()
        body = {"model": MODEL, "user": user, "messages": [{"role": "user", "content": "Hello"}]}
        async with self._session.post(f"{self._gateway}/v1/chat/completions", json=body, headers=headers) as answer:
            await answer.read()
        ended = time.monotonic()
        version = answer.headers.get(CLUSTER_HEADER, "")
        own.answers.append((sent, ended, version, answer.status, (ended - sent) * 1000))


def _rows(scenario: Scenario, own: Own, state: State, began: float, decided: int) -> list[dict[str, Any]]:
    as_wished = state.phase is scenario.ends if scenario.ends else state.phase is Phase.RUNNING and state.step == 0
    rows = [
        _row(scenario, f"ends {state.phase.replace('_', ' ')}: {state.why}", float(as_wished), "", 1.0),
        _row(scenario, "requests that met the canary", own.of(CANARY), "", None),
        _row(scenario, "from its start to its end", time.monotonic() - began, "s", None),
    ]
    if scenario.ends is Phase.ROLLED_BACK:
        enough = own.enough_at(ALARMS / len(scenario.steps.split(",")) / 2, began, decided)
        seconds = float("inf") if enough is None else max(0.0, own.last_of_the_canary() - enough)
        rows.append(_row(scenario, "from enough evidence to the last request sent to it", seconds, "s", TARGET_SECONDS))
    return rows


def _row(scenario: Scenario, name: str, value: float, unit: str, target: float | None) -> dict[str, Any]:
    return {"name": f"{scenario.name}: {name}", "value": value, "unit": unit, "target": target}


def measure(
    scenarios: Sequence[Scenario] = SCENARIOS, say: Callable[[str], None] | None = None
) -> list[dict[str, Any]]:
    """Rows of {name, value, unit, target}."""
    return asyncio.run(_measure(scenarios, say or (lambda _: None)))


async def _measure(scenarios: Sequence[Scenario], say: Callable[[str], None]) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        async with _engines() as engines, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            up = _cluster(Path(name), {version: address for version, (address, _) in engines.items()})
            ready = await asyncio.to_thread(up.__enter__)
            bench = Bench(session, ready, {version: engine for version, (_, engine) in engines.items()})
            try:
                for scenario in scenarios:
                    say(scenario.name)
                    rows += await bench.run(scenario)
            finally:
                await bench.close()
                await asyncio.to_thread(up.__exit__, None, None, None)
    return rows


def main() -> None:
    """Print every figure beside its target, and all as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, choices=range(1, len(SCENARIOS) + 1), help="one scenario, by its number")
    given = parser.parse_args()
    rows = measure(SCENARIOS if given.only is None else SCENARIOS[given.only - 1 : given.only], print)
    for row in rows:
        target = "" if row["target"] is None else f"target {row['target']:g}"
        print(f"{row['value']:>9.2f} {row['unit']:<2} {row['name']}  {target}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()

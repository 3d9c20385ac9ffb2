"""A gateway as `tidegate up` runs it, with a model in versions and a model with shadows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import httpx

from tests.conftest import wait_until
from tests.ports import take_free_port
from tests.up.cluster import Up, start_up, stop_up
from tests.up.engines import Engines

MODEL: Final = "m"
SHADOWED: Final = "s"
LATER: Final = "later"
CLUSTER_HEADER: Final = "x-tidegate-cluster"
AT_ONCE: Final = 16


@dataclass(frozen=True)
class Told:
    """One answer: status, the cluster that gave it, and text."""

    status: int
    cluster: str
    text: str


@dataclass
class World:
    """`main`, `canary`, `second` (a canary too) and `shadow` are addresses of simulated engines.

    At `dead` nobody listens.
    """

    up: Up
    engines: Engines
    main: str
    canary: str
    second: str
    shadow: str
    dead: str

    def start(self, address: str) -> None:
        """Start an engine again."""
        start_engine(self.engines, address)

    def retries(self, cluster: str) -> int:
        """How often Envoy tried another replica of a cluster."""
        return self.envoy_stat(f"cluster.{cluster}.upstream_rq_retry")

    def envoy_stat(self, name: str) -> int:
        """A counter or gauge of Envoy's; 0 of one that it has not begun to count."""
        page = httpx.get(f"{self.up.ready['envoy_admin']}/stats", params={"filter": f"^{name}$"}, timeout=60).text
        return int(page.partition(": ")[2] or 0)

    def split(self, model: str = MODEL, **shares: object) -> None:
        """HSET tidegate:split:MODEL."""
        fields = [str(word) for pair in shares.items() for word in pair]
        self.up.redis("HSET", f"tidegate:split:{model}", *fields)

    def whole_split(self, model: str = MODEL, **shares: object) -> None:
        """`split` with 0 for the versions that are not named, and wait until ext_proc goes by it."""
        shares = {"stable": 0, "canary": 0, "empty": 0} | shares
        self.split(model, **shares)
        self.wait_in_force(model, shares)

    def no_split(self) -> None:
        """Back to the file's."""
        self.up.redis("DEL", f"tidegate:split:{MODEL}", f"tidegate:split:{LATER}")
        self.wait_in_force(MODEL, {"stable": 1000, "canary": 0, "empty": 0})

    def wait_in_force(self, model: str, shares: Mapping[str, object]) -> None:
        wait_until(
            lambda: all(self.share(model, name) == share for name, share in shares.items()),
            what=f"{shares} of {model} in force",
        )

    def share(self, model: str, version: str) -> float:
        return self.metric("tidegate_ext_proc_split_permille", model=model, version=version)

    def metric(self, name: str, **labels: str) -> float:
        """A value of ext_proc's page; -1 where it is not there."""
        wanted = name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "} "
        try:
            lines = httpx.get(self.up.ready["metrics"]["ext_proc"], timeout=60).text.splitlines()
        except httpx.HTTPError:  # it restarts
            return -1
        return float(next((line.removeprefix(wanted) for line in lines if line.startswith(wanted)), "-1"))

    def ask(self, user: str | None = None, model: str = MODEL, **headers: str) -> Told:
        """One completion."""
        return self.ask_all([(user, headers)], model)[0]

    def ask_all(self, askers: Iterable[tuple[str | None, Mapping[str, str]]], model: str = MODEL) -> list[Told]:
        """A completion for each (user, headers), a few at once; the answers in that order."""
        return asyncio.run(self._ask_all(list(askers), model))

    def sides(self, users: Iterable[str], **headers: str) -> list[str]:
        """The cluster that answers each user, while every version that has an engine serves.

        A busy machine may keep an engine from the agent for a moment: then its users are sent elsewhere, as they
        should be, and everybody is asked again.
        """
        asked, found = [(user, headers) for user in users], list[str]()

        def undisturbed() -> bool:
            before = self._lost()
            found[:] = [one.cluster for one in self.answers(asked)]
            return self._lost() == before

        wait_until(undisturbed, what="versions that serve all the while")
        return found

    def _lost(self) -> list[float]:
        name = "tidegate_ext_proc_split_fallbacks_total"
        return [self.metric(name, model=MODEL, version=version) for version in ("stable", "canary")]

    def answers(self, askers: Iterable[tuple[str | None, Mapping[str, str]]], model: str = MODEL) -> list[Told]:
        """`ask_all`, asking those again who get 503 because no replica of theirs is seen to serve."""
        asked, found = list(askers), dict[int, Told]()

        def all_answered() -> bool:
            left = [number for number in range(len(asked)) if number not in found]
            told = dict(zip(left, self.ask_all([asked[number] for number in left], model), strict=True))
            assert {one.status for one in told.values()} <= {200, 503}, Counter(one.status for one in told.values())
            found.update((number, one) for number, one in told.items() if one.status == 200)
            return len(found) == len(asked)

        wait_until(all_answered, what="an answer for everybody")
        return [found[number] for number in range(len(asked))]

    async def _ask_all(self, askers: list[tuple[str | None, Mapping[str, str]]], model: str) -> list[Told]:
        gate = asyncio.Semaphore(AT_ONCE)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as client:
            return list(
                await asyncio.gather(*(self._one(client, gate, user, headers, model) for user, headers in askers))
            )

    async def _one(
        self,
        client: aiohttp.ClientSession,
        gate: asyncio.Semaphore,
        user: str | None,
        headers: Mapping[str, str],
        model: str,
    ) -> Told:
        body: dict[str, Any] = {"model": model, "prompt": "x", "max_tokens": 1}
        if user is not None:
            body["user"] = user
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with gate, client.post(f"{self.up.gateway}/v1/completions", json=body, headers=sent) as got:
            text = await got.text()
            return Told(got.status, got.headers.get(CLUSTER_HEADER, ""), text)

    def received(self, address: str, last: int = 4096) -> list[dict[str, Any]]:
        """What an engine recorded, the oldest first."""
        return list(httpx.get(f"http://{address}/sim/requests?last={last}", timeout=60).json())

    def fault(self, address: str, kind: str) -> None:
        httpx.post(f"http://{address}/sim/fault", json={"fault": kind}, timeout=60).raise_for_status()


def config_of(main: str, canary: str, second: str, shadow: str, dead: str) -> dict[str, Any]:
    """Versions of MODEL: stable, canary and one without an engine. SHADOWED has a shadow that lives, and one that is dead."""

    def cluster(name: str, *addresses: str, models: list[str] | None = None, **more: Any) -> dict[str, Any]:
        return {"name": name, "models": models or [], "endpoints": [{"address": one} for one in addresses], **more}

    return {
        "gateway": {
            "listen": "127.0.0.1:0",
            "expose_routing": True,
            "user_header": "X-User-Id",
            "strip_headers": ["X-Canary", "x-region"],
        },
        "redis": {"url": f"redis://127.0.0.1:{take_free_port()}/0"},
        "clusters": [
            cluster("stable", main, models=[MODEL, LATER]),
            cluster("canary", canary, second),
            cluster("empty"),
            cluster("eu", main),
            cluster("gold", main),
            cluster("main", main, models=[SHADOWED]),
            cluster("shadow", shadow, lb="weighted"),
            cluster("dead-shadow", dead, lb="weighted"),
        ],
        "routes": [
            {"match": {"model": MODEL, "header": {"X-Region": "eu"}}, "cluster": "eu", "share": 300},
            {"match": {"model": MODEL, "header": {"x-tier": "gold"}}, "cluster": "gold"},
        ],
        "splits": {MODEL: {"parts": {"stable": 1000, "canary": 0, "empty": 0}, "canary": "canary"}},
        "shadows": {SHADOWED: {"shadow": 500, "dead-shadow": 1000}},
    }


def start_engine(engines: Engines, address: str) -> None:
    names = [word for name in (MODEL, SHADOWED, LATER) for word in ("--model", name)]
    engines.start(address, "--record-requests", "--time-scale", "50", *names)


def start_world(folder: Path, engines: Engines) -> World:
    """Start the engines and then the gateway, which would wait for them, and wait until every version serves."""
    addresses = [f"127.0.0.1:{take_free_port()}" for _ in range(5)]
    for address in addresses[:-1]:
        start_engine(engines, address)
    up = start_up(folder, config=config_of(*addresses))
    world = World(up, engines, *addresses)
    up.redis("HSET", "tidegate:tune", "heal.retries_off_at", "1")  # one test's faults would cut another's retries
    try:
        wait_until(lambda: world.ask(x_tidegate_version="stable").status == 200, what="stable serves")
        wait_until(lambda: world.ask(x_tidegate_version="canary").status == 200, what="canary serves")
        wait_until(lambda: world.ask(model=SHADOWED).status == 200, what="the model with shadows serves")
    except AssertionError:
        stop_up(up)
        raise
    return world

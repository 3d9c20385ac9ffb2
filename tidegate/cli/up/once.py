"""`tidegate up --once`: one request to each cluster, and what happened as a table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from rich import box
from rich.table import Table

from tidegate.domain.wire import CLUSTER_HEADER, ENDPOINT_HEADER, REASON_HEADER


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came back for one cluster's request. `why` is empty when its own cluster answered with 200."""

    cluster: str
    model: str
    path: str
    status: int | None = None
    replica: str = ""
    milliseconds: float = 0.0
    why: str = ""

    @property
    def ok(self) -> bool:
        """Whether the cluster itself answered."""
        return not self.why


def request_for(cluster: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Path and body of a small request to the cluster's first model."""
    model = cluster["models"][0]
    if cluster.get("kind", "llm") == "diffusion":
        body = {"model": model, "prompt": "a tide gate at dawn", "size": "256x256", "num_inference_steps": 1}
        return "/v1/images/generations", body
    messages = [{"role": "user", "content": "Say hello."}]
    return "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 8}


async def ask(session: aiohttp.ClientSession, gateway: str, cluster: Mapping[str, Any]) -> Outcome:
    """Send the cluster's request once."""
    path, body = request_for(cluster)
    place = {"cluster": cluster["name"], "model": body["model"], "path": path}
    started = time.perf_counter()
    try:
        async with session.post(f"{gateway}{path}", json=body) as response:
            await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        return Outcome(**place, why=f"{type(exc).__name__}: {exc}")
    taken = (time.perf_counter() - started) * 1000
    answered_by, why = response.headers.get(CLUSTER_HEADER), ""
    if response.status != 200:
        why = response.headers.get(REASON_HEADER, response.reason or "refused")
    elif answered_by != cluster["name"]:
        why = f"answered by {answered_by or 'no cluster of ours'}"
    replica = response.headers.get(ENDPOINT_HEADER, "")
    return Outcome(**place, status=response.status, replica=replica, milliseconds=taken, why=why)


async def ask_until_answered(
    session: aiohttp.ClientSession, gateway: str, cluster: Mapping[str, Any], patience_seconds: float
) -> Outcome:
    """Ask again while the cluster has no ready replica yet."""
    end = time.monotonic() + patience_seconds
    while not (outcome := await ask(session, gateway, cluster)).ok and time.monotonic() < end:
        await asyncio.sleep(0.1)
    return outcome


async def ask_each(gateway: str, clusters: list[dict[str, Any]], patience_seconds: float) -> list[Outcome]:
    """One request to each cluster that has a model of its own, in file order."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        asks = [ask_until_answered(session, gateway, c, patience_seconds) for c in clusters if c.get("models")]
        return list(await asyncio.gather(*asks))


def table(outcomes: list[Outcome]) -> Table:
    """The outcomes as people read them."""
    view = Table(title="One request to each cluster, through Envoy", box=box.SIMPLE_HEAD, padding=0)
    for column in ("cluster", "path", "status", "replica", "ms", "result"):
        right = column in {"status", "ms"}
        view.add_column(column, justify="right" if right else "left", no_wrap=column != "result", overflow="fold")
    for o in outcomes:
        result = "[green]answered[/]" if o.ok else f"[red]{o.why}[/]"
        view.add_row(o.cluster, o.path, str(o.status or "-"), o.replica, f"{o.milliseconds:.1f}", result)
    return view

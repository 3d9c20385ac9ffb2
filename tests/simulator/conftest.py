"""Engines in this process, and clients for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from simulator.app import EngineHandle, start
from tidegate.settings.services import EngineSimSettings

Start = Callable[..., Awaitable["Client"]]


class Client:
    """Talks to one engine: raw HTTP, the openai client, and its metrics page."""

    def __init__(self, handle: EngineHandle) -> None:
        self.address = handle.address
        self.http = httpx.AsyncClient(base_url=f"http://{handle.address}", timeout=60, trust_env=False)
        self.openai = openai.AsyncOpenAI(
            base_url=f"http://{handle.address}/v1",
            api_key="none",
            max_retries=0,
            timeout=60,
            http_client=httpx.AsyncClient(trust_env=False),
        )

    async def metric(self, name: str, **labels: str) -> float:
        """One sample of the page, found by the labels given."""
        for family in await self.families():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        raise AssertionError(f"no {name} with {labels}")

    async def families(self) -> list[Any]:
        """The page, parsed."""
        return list(text_string_to_metric_families((await self.http.get("/metrics")).text))

    async def aclose(self) -> None:
        await self.http.aclose()
        await self.openai.close()


@pytest.fixture
async def start_engine() -> AsyncIterator[Start]:
    """Start an engine on a free port; simulated time runs 50 times as fast unless said otherwise."""
    async with AsyncExitStack() as stack:

        async def begin(**settings: Any) -> Client:
            defaults = {"port": 0, "model": ["m"], "time_scale": 50.0}
            handle = await start(EngineSimSettings(**{**defaults, **settings}))
            stack.push_async_callback(handle.stop)
            client = Client(handle)
            stack.push_async_callback(client.aclose)
            return client

        yield begin


def chat(content: str = "hello", **more: Any) -> dict[str, Any]:
    """A chat body."""
    return {"model": "m", "messages": [{"role": "user", "content": content}], **more}

"""A gateway as `tidegate up` runs it, in front of one simulated engine that records what it receives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.cases.bodies import cases
from tests.conftest import wait_until
from tests.gateway.wire import Answer, send
from tests.ports import take_free_port
from tests.up.cluster import Up, start_up, stop_up
from tests.up.engines import Engines

LIMIT_BYTES = 32 << 20
DEFAULT = "llama-8b"
LONG, ODD, ADAPTER, LOADED = "llama-8b-long", "org/odd name:1+ü", "sql-lora", "loaded-later"
KNOWN = sorted({case.expect["model"] for case in cases() if case.expect.get("model")})


def clusters() -> list[dict[str, Any]]:
    """Every cluster has the same engine; the header x-tidegate-cluster tells them apart."""
    return [
        {"name": "main", "models": KNOWN, "loras": [ADAPTER]},
        {"name": "odd", "models": [ODD], "lb": "weighted"},
        {"name": "long", "models": []},
        {"name": "ears", "models": []},
        {"name": "free", "models": []},
    ]


ROUTES = [
    {"match": {"header": {"X-Tier": "free"}}, "cluster": "free"},
    {"match": {"media": "audio", "api": "audio"}, "cluster": "ears"},
    {"match": {"model": DEFAULT, "prompt_tokens": ">50000"}, "cluster": "long", "model": LONG},
    {"match": {"model": DEFAULT, "output_tokens": "30000..90000"}, "cluster": "long"},
]
ALIASES = {"gpt-4o": DEFAULT, "o": "gpt-4o", "a long name for a short one " + "x" * 200: "m"}


@dataclass
class World:
    """`up` is the running gateway, `engine` the address of the engine behind all of its clusters."""

    up: Up
    engine: str

    @property
    def port(self) -> int:
        return int(urlsplit(self.up.gateway).port or 0)

    def send(self, method: str, path: str, **more: Any) -> Answer:
        """One request over a connection of its own (see `wire.send`)."""
        return send(self.port, method, path, **more)

    def post(self, body: object, path: str = "/v1/chat/completions", **more: Any) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, **{"headers": [("content-type", "application/json")], **more, "body": content})

    def read(self) -> dict[str, Any]:
        """What was read from the last request, and what became of it."""
        page = self.up.ready["metrics"]["ext_proc"].replace("/metrics", "/debug/last")
        (last,) = httpx.get(page, timeout=60).json()
        return dict(last)

    def received(self) -> dict[str, Any]:
        """The engine's record of the last request."""
        (last,) = httpx.get(f"http://{self.engine}/sim/requests?last=1", timeout=60).json()
        return dict(last)

    def metric(self, name: str, **labels: str) -> float:
        """A value of ext_proc's metrics page."""
        wanted = name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "} "
        lines = httpx.get(self.up.ready["metrics"]["ext_proc"], timeout=60).text.splitlines()
        return float(next(line for line in lines if line.startswith(wanted)).removeprefix(wanted))


def start_world(folder: Path, engines: Engines) -> World:
    """Start the engine and the gateway, and wait until every cluster serves and every model is listed."""
    address = f"127.0.0.1:{take_free_port()}"
    names = [*KNOWN, ODD, LONG, ADAPTER, LOADED]
    models = [word for name in names for word in ("--model", name)]
    engines.start(address, "--record-requests", "--time-scale", "50", *models)
    config = {
        "gateway": {"listen": "127.0.0.1:0", "expose_routing": True, "cors_origin": "https://app.test"},
        "redis": {"url": f"redis://127.0.0.1:{take_free_port()}/0"},
        "clusters": [{**one, "endpoints": [{"address": address}]} for one in clusters()],
        "routes": ROUTES,
        "aliases": ALIASES,
        "default_model": DEFAULT,
    }
    up = start_up(folder, config=config, env={"TIDEGATE_EXT_PROC_DEBUG_REQUESTS": "1"})
    world = World(up, address)
    small = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    try:
        for model in (DEFAULT, ODD, LOADED):
            ready = {"model": model, **small}
            wait_until(lambda ready=ready: world.post(ready).status == 200, what=f"{model} is served")
        # ext_proc and the list of models, which xds tells Envoy, learn of it each at its own time.
        wait_until(lambda: LOADED in str(world.send("GET", "/v1/models").json), what=f"{LOADED} is listed")
    except AssertionError:
        stop_up(up)
        raise
    return world

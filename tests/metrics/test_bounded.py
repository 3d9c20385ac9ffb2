"""Clients choose no label: ten thousand of anything that they send leave every registry as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

import ext_proc.app
import outcomes.app
from ext_proc.flow.later import Later
from ext_proc.session import Session
from outcomes.server import AccessLogs
from tests.conftest import until
from tests.ext_proc.parts import body_message
from tests.outcomes.entries import entry
from tidegate.domain.wire import PATH_ATTRIBUTE, header_attribute
from tidegate.exposition import Families
from tidegate.runtime import now_ms
from tidegate.settings.config_file import parse
from tidegate.settings.services import ExtProcSettings, OutcomesSettings
from tidegate.store.memory import MemoryStore

MANY = 10_000
SECRET = "sk-live-4242"
PROMPT = "the patient's name is Ada"
FILE = parse(
    """
gateway: {class_header: true, user_header: x-user, explain: true}
clusters:
  - {name: chat, models: [phi-3], endpoints: [{address: "10.0.0.1:8000"}]}
  - {name: chat-next, models: [], endpoints: [{address: "10.0.0.2:8000"}]}
aliases: {short: phi-3}
splits: {phi-3: {chat: 900, chat-next: 100}}
""",
    "test.yaml",
)


def series(registry: CollectorRegistry) -> set[tuple[str, ...]]:
    """Every series, by its name and labels."""
    return {
        (one.name, *(f"{label}={value}" for label, value in sorted(one.labels.items())))
        for family in Families(registry).collect()
        for one in family.samples
    }


class Transport:
    """A server that binds nothing, and gives out sessions."""

    sessions: Callable[[], Session]

    def __init__(self, sessions: Any, *_: Any, **__: Any) -> None:
        Transport.sessions = sessions

    async def start(self, _: str) -> str:
        return "nowhere:1"

    async def stop(self, _: float) -> None:
        pass


def requests(begin: int, count: int) -> Iterator[bytes]:
    """Each with another model, user, class, version, path and header; some for a model that exists, some unreadable."""
    for number in range(begin, begin + count):
        model = f"m-{number}" if number % 3 else "phi-3"
        body = {
            "model": model,
            "user": f"user-{number}",
            "messages": [{"role": "user", "content": f"{PROMPT} {number}"}],
        }
        names = (
            "x-tidegate-class",
            "x-user",
            "x-canary",
            "user-agent",
            *(["x-tidegate-version"] if number % 2 else []),
        )
        attributes = {
            PATH_ATTRIBUTE: f"/v1/chat/completions?n={number}" if number % 5 else f"/v1/path-{number}",
            **{header_attribute(name): f"{name}-{number}" for name in names},
            header_attribute("authorization"): f"Bearer {SECRET}-{number}",
        }
        yield body_message(json.dumps(body).encode() if number % 7 else b"{" + str(number).encode(), attributes)


async def test_ten_thousand_of_everything_that_clients_send_leave_ext_proc_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ext_proc.app, "TRANSPORTS", {"wire": Transport})
    registry, store = CollectorRegistry(), MemoryStore(now_ms)
    serving = asyncio.create_task(ext_proc.app.serve_on(store, FILE, ExtProcSettings(), registry=registry))

    async def beats() -> bool:
        return "ext_proc" in await store.present()

    try:
        await until(beats, what="ext_proc's presence")
        with structlog.testing.capture_logs() as logs:
            for message in requests(0, 210):
                assert not isinstance(Transport.sessions().handle(message), Later)
            before = series(registry)
            for message in requests(210, MANY):
                Transport.sessions().handle(message)
            after = series(registry)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert after == before
    assert {one[0] for one in before} >= {"tidegate_ext_proc_decisions_total", "tidegate_ext_proc_split_requests_total"}
    said = f"{after} {logs}"
    assert [word for word in (SECRET, PROMPT, "user-2", "m-2") if word in said] == []


async def test_ten_thousand_of_everything_in_the_access_log_leave_outcomes_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, store = CollectorRegistry(), MemoryStore(now_ms)
    heard: list[AccessLogs] = []

    async def start(listen: str, logs: AccessLogs, *_: Any) -> tuple[Transport, str]:
        heard.append(logs)
        return Transport(None), listen

    monkeypatch.setattr(outcomes.app, "start", start)
    serving = asyncio.create_task(outcomes.app.serve_on(store, FILE, OutcomesSettings(), registry))
    try:
        await until(lambda: bool(heard), what="outcomes listening")
        [logs] = heard
        looks = [listen_to(logs, registry, begin, count) for begin, count in ((0, 50), (50, MANY))]
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert logs.counted == 50 + MANY
    assert looks[1] == looks[0]
    assert SECRET not in str(looks[1])


def listen_to(logs: AccessLogs, registry: CollectorRegistry, begin: int, count: int) -> set[tuple[str, ...]]:
    """The series after so many entries, each with another model, class, path, agent and reason."""
    for number in range(begin, begin + count):
        labels = {"model": f"m-{number}", "class": f"class-{number}"}
        if number % 2:
            one = entry(400, f"tidegate_{number}", replica="", labels=labels)
        else:
            one = entry(200, "via_upstream", labels=labels)
        one.request.path, one.request.user_agent = f"/{SECRET}/{number}", f"agent-{number}"
        logs.entry(one)
    return series(registry)

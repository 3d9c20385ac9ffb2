"""Hooks over real HTTP: what is accepted waits in the inbox, what is refused changes nothing and writes one line."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.hooks.access import TokenFile, may_call, token_of
from controller.hooks.connections import Guarded
from controller.hooks.instruments import HookInstruments
from controller.hooks.server import BURST, MOST_BYTES, Hooks, HooksServer
from tests.actions.acts import NOW_MS
from tidegate.domain.actions.act import Deed, Kind
from tidegate.domain.actions.notice import MOST_WAITING, Notice
from tidegate.domain.actions.rules import Actions, Known, Rule, Rules
from tidegate.domain.errors import ConfigError
from tidegate.store.memory import MemoryStore

TOKEN = "a-token-of-sixteen-or-more"
CUT = Deed(kind=Kind.RETRIES, cluster="$cluster", to=0)
RULES = Rules(
    Actions(
        (
            Rule(name="cut", alerts=("Failing",), deeds=(CUT,)),
            Rule(name="release", tags=("release",), deeds=(Deed(kind=Kind.HOLD, classes=("batch",)),)),
        )
    ),
    Known({"phi-3"}, {"batch"}),
)
FIRING = {
    "version": "4",
    "groupKey": "{}:{}",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "Failing", "cluster": "phi-3"},
            "annotations": {"summary": "x"},
            "startsAt": "2023-11-14T22:13:19.123456789Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": "c6eadffa33fcdf37",
        }
    ],
}


def alerts(*labels: dict[str, str], status: str = "firing") -> dict[str, Any]:
    return {"alerts": [{"status": status, "labels": one} for one in labels]}


@dataclass
class World:
    """Hooks that are served, and a client that knows the token unless told otherwise."""

    store: MemoryStore
    registry: CollectorRegistry
    url: str
    client: aiohttp.ClientSession
    seconds: list[float] = field(default_factory=lambda: [0.0])

    async def post(self, path: str, body: Any, token: str | None = TOKEN) -> tuple[int, Any]:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with self.client.post(f"{self.url}{path}", data=data, headers=headers) as answer:
            return answer.status, {**await answer.json(), **{k.lower(): v for k, v in answer.headers.items()}}

    async def waiting(self) -> list[Notice]:
        return list((await self.store.delivered(10_000)).notices)

    def counted(self, hook: str, result: str) -> float:
        value = self.registry.get_sample_value("tidegate_hooks_requests_total", {"hook": hook, "result": result})
        return value or 0.0


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store, registry, seconds = MemoryStore(lambda: NOW_MS), CollectorRegistry(), [0.0]
    hooks = Hooks(RULES, store, HookInstruments(registry), token=lambda: TOKEN, monotonic=lambda: seconds[0])
    server = HooksServer(hooks)
    address = await server.start("127.0.0.1:0")
    async with aiohttp.ClientSession() as client:
        yield World(store, registry, f"http://{address}", client, seconds)
    await server.stop()


@pytest.mark.parametrize("hook", ["alertmanager", "grafana"])
async def test_an_alert_waits_in_the_inbox_with_what_it_asks_for(world: World, hook: str) -> None:
    grafana = {**FIRING, "orgId": 1, "title": "[FIRING:1]", "state": "alerting", "message": "x"}
    status, said = await world.post(f"/hooks/{hook}", grafana if hook == "grafana" else FIRING)
    [notice] = await world.waiting()
    assert (status, said["accepted"], said["refused"]) == (200, 1, [])
    assert (notice.cause, notice.over, notice.version_ms) == ("alert Failing", False, 1_699_999_999_123)
    assert [(one.rule, one.deed.cluster) for one in notice.orders] == [("cut", "phi-3")]
    assert world.counted(hook, "accepted") == 1


async def test_payloads_of_other_versions_are_read_as_far_as_they_say_something(world: World) -> None:
    bare = {"status": "resolved", "alerts": [{"labels": {"alertname": "Failing", "cluster": "phi-3", "n": 3}}]}
    assert (await world.post("/hooks/alertmanager", bare))[0] == 200
    [notice] = await world.waiting()
    assert (notice.over, notice.version_ms) == (True, 0)


@pytest.mark.parametrize(
    ("path", "body", "token", "status", "result", "said"),
    [
        ("alertmanager", FIRING, "a-wrong-token-of-some-length", 401, "unauthorized", "token"),
        ("alertmanager", FIRING, None, 401, "unauthorized", "token"),
        ("alertmanager", b"\xff{", TOKEN, 400, "garbage", "JSON"),
        ("alertmanager", b"[" * 100_000, TOKEN, 400, "garbage", "JSON"),
        ("alertmanager", [], TOKEN, 400, "garbage", "object"),
        ("alertmanager", {"alerts": []}, TOKEN, 400, "garbage", "alerts"),
        ("alertmanager", {"alerts": [7]}, TOKEN, 400, "garbage", "labels"),
        ("alertmanager", {"alerts": [{"labels": {}, "status": "on"}]}, TOKEN, 400, "garbage", "status"),
        ("alertmanager", alerts({"alertname": "Other"}), TOKEN, 404, "unknown", "'Other'"),
        ("alertmanager", alerts({"x": "y"}), TOKEN, 404, "unknown", "alert ''"),
        ("alertmanager", alerts({"alertname": "Failing"}), TOKEN, 422, "labels", "'cluster'"),
        ("alertmanager", alerts({"alertname": "Failing", "cluster": "x"}), TOKEN, 422, "target", "'x'"),
        ("alertmanager", b"x" * 5_000_000, TOKEN, 413, "size", "bytes"),
        ("alertmanager", {"alerts": [{"labels": {}, "status": "firing"}] * 1_001}, TOKEN, 413, "size", "max_alerts"),
        ("annotations", {"tags": ["release"]}, TOKEN, 400, "garbage", "time"),
        ("annotations", {"time": NOW_MS, "tags": []}, TOKEN, 400, "garbage", "tags"),
        ("annotations", {"time": NOW_MS, "timeEnd": NOW_MS - 1, "tags": ["release"]}, TOKEN, 400, "garbage", "ends"),
        ("annotations", {"time": NOW_MS, "tags": ["release"], "id": [1]}, TOKEN, 400, "garbage", "id"),
        ("annotations", {"time": NOW_MS, "tags": ["other"]}, TOKEN, 404, "unknown", "other"),
    ],
)  # fmt: skip
async def test_what_is_refused_changes_nothing_and_writes_one_line(
    world: World, path: str, body: Any, token: str | None, status: int, result: str, said: str
) -> None:
    with capture_logs() as lines:
        answered, answer = await world.post(f"/hooks/{path}", body, token)
    assert (answered, await world.waiting()) == (status, [])
    assert said in answer["error"]
    assert [line["result"] for line in lines] == [result]
    assert world.counted(path, result) == 1
    assert TOKEN not in json.dumps(lines) and "a-wrong-token" not in json.dumps(lines)  # noqa: PT018


async def test_a_body_that_grows_beyond_the_limit_is_refused_whatever_it_announced(world: World) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MOST_BYTES // 65_536 + 2):
            yield b" " * 65_536

    headers = {"authorization": f"Bearer {TOKEN}"}
    async with world.client.post(f"{world.url}/hooks/alertmanager", data=chunks(), headers=headers) as answer:
        assert answer.status == 413


@pytest.mark.parametrize(
    "said",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nauthorization: Bearer %b\0\r\n\r\n" % TOKEN.encode(),
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\r\n\r\n",
        b"POST /hooks/alertmanager HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /hooks/alertmanager HTTP/1.1\r\nhost: x\r\nx: %b\r\n\r\n" % (b"a" * 100_000),
        b"POST /hooks/alertmanager HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\nauthorization: Bearer %b\r\n"
        b"content-length: 4\r\n\r\nabcd" % TOKEN.encode(),
        b"POST /hooks/%%0aFAKE HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\n\r\n" % TOKEN.encode(),
    ],
    ids=["HTTP/2", "a byte of zero", "TLS", "a chunk", "a long header", "compressed", "a path of two lines"],
)
async def test_what_no_client_would_say_is_refused_in_one_line_without_the_token(world: World, said: bytes) -> None:
    host, _, port = world.url.removeprefix("http://").rpartition(":")
    with capture_logs() as lines:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert answer.split()[1] in {b"400", b"404"}
    assert [(line["log_level"], "exception" in line) for line in lines] == [("warning", False)]
    assert TOKEN not in json.dumps(lines)
    assert await world.waiting() == []


@contextlib.asynccontextmanager
async def connected(
    monkeypatch: pytest.MonkeyPatch, times: int, most: int, silent: float
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """So many connections to hooks that bear `most` at once, and each for so many silent seconds."""
    monkeypatch.setattr("controller.hooks.server.Guarded", partial(Guarded, most=most, silent=silent))
    server = HooksServer(Hooks(RULES, MemoryStore(lambda: NOW_MS), HookInstruments(CollectorRegistry()), token=str))
    host, _, port = (await server.start("127.0.0.1:0")).rpartition(":")
    pairs = [await asyncio.open_connection(host, int(port)) for _ in range(times)]
    try:
        async with asyncio.timeout(60):
            yield pairs
    finally:
        for _, writer in pairs:
            writer.close()
        await server.stop()


async def test_of_too_many_connections_the_most_silent_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch, 3, most=2, silent=600) as [(oldest, _), *others]:
        await _end(oldest)
        for reader, writer in others:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"401" in await reader.readline()


async def test_connections_that_stay_silent_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch, 2, most=2, silent=0.2) as pairs:
        await asyncio.gather(*(_end(reader) for reader, _ in pairs))


async def _end(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


async def test_a_compressed_body_is_left_alone(world: World) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "content-encoding": "br"}
    async with world.client.post(f"{world.url}/hooks/alertmanager", data=b"x", headers=headers) as answer:
        assert (answer.status, "is compressed" in (await answer.json())["error"]) == (400, True)
    assert world.counted("alertmanager", "garbage") == 1


async def test_a_body_that_does_not_come_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.hooks.server.BODY_SECONDS", 0.1)
    host, _, port = world.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with capture_logs() as lines:
        writer.write(b"POST /hooks/alertmanager HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n")
        writer.write(b"authorization: Bearer %b\r\n\r\n{" % TOKEN.encode())
        assert b" 408 " in await reader.readline()
    assert [line["result"] for line in lines] == ["slow"]
    writer.close()
    await writer.wait_closed()


async def test_of_several_alerts_the_good_ones_are_accepted_and_nothing_comes_back(world: World) -> None:
    good, bad = {"alertname": "Failing", "cluster": "phi-3"}, {"alertname": "Other"}
    with capture_logs() as lines:
        status, said = await world.post("/hooks/alertmanager", alerts(good, bad))
    assert (status, said["accepted"], len(await world.waiting()), len(lines)) == (200, 1, 1, 1)
    assert "'Other'" in said["refused"][0]
    assert world.counted("alertmanager", "partly") == 1


async def test_a_missing_label_says_more_than_an_alert_that_nobody_wants(world: World) -> None:
    status, _ = await world.post("/hooks/alertmanager", alerts({"alertname": "Other"}, {"alertname": "Failing"}))
    assert status == 422


async def test_too_many_requests_are_told_when_to_come_again(world: World) -> None:
    answers = [(await world.post("/hooks/alertmanager", FIRING))[0] for _ in range(BURST)]
    assert set(answers) == {200}
    status, said = await world.post("/hooks/alertmanager", FIRING)
    assert (status, said["retry-after"]) == (429, "1")
    world.seconds[0] += 1.0
    assert (await world.post("/hooks/alertmanager", FIRING))[0] == 200


async def test_wrong_tokens_do_not_use_up_the_calls_of_those_who_know(world: World) -> None:
    for _ in range(BURST + 1):
        await world.post("/hooks/alertmanager", b"", "a-wrong-token-of-some-length")
    assert world.counted("alertmanager", "rate") == 1
    assert (await world.post("/hooks/alertmanager", FIRING))[0] == 200


async def test_a_store_that_fails_or_is_full_is_tried_again(world: World) -> None:
    world.store.available = False
    status, said = await world.post("/hooks/alertmanager", FIRING)
    assert (status, said["retry-after"]) == (503, "5")
    world.store.available = True
    notice = Notice(key="x", cause="x", version_ms=1, first_ms=1, last_ms=1)
    await world.store.deliver([notice] * MOST_WAITING, most=MOST_WAITING)
    assert (await world.post("/hooks/alertmanager", FIRING))[0] == 503


async def test_an_annotation_is_a_window_with_its_tags_as_labels(world: World) -> None:
    told = {
        "id": 17,
        "time": NOW_MS,
        "timeEnd": NOW_MS + 1,
        "tags": ["release", "cluster:phi-3"],
        "text": "v2",
        "x": None,
    }
    assert (await world.post("/hooks/annotations", told))[0] == 200
    async with world.client.delete(
        f"{world.url}/hooks/annotations/17", headers={"authorization": f"Bearer {TOKEN}"}
    ) as answer:
        assert answer.status == 200
    one, two = await world.waiting()
    assert (one.key, one.from_ms, one.until_ms, one.over) == ("annotation:17", NOW_MS, NOW_MS + 1, False)
    assert (two.key, two.over) == ("annotation:17", True)


async def test_the_same_annotation_without_an_identifier_is_one(world: World) -> None:
    told = {"time": NOW_MS, "tags": ["release"], "text": "v2"}
    await asyncio.gather(*(world.post("/hooks/annotations", told) for _ in range(3)))
    assert len({one.key for one in await world.waiting()}) == 1


async def test_there_are_no_other_hooks(world: World) -> None:
    assert (await world.post("/hooks/other", FIRING))[0] == 404
    assert world.counted("none", "path") == 1


# --- who may call -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "10.0.0.5:1", "xds:1"])
def test_without_a_token_nobody_outside_may_reach_the_hooks(listen: str) -> None:
    with pytest.raises(ConfigError, match="--hooks-token-file"):
        token_of(listen, None)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:1", "localhost:1"])
def test_on_the_loopback_no_token_is_needed(listen: str) -> None:
    assert token_of(listen, None) is None
    assert may_call(None, None)


def test_a_token_is_read_from_its_file_and_never_told(tmp_path: Any, free_port: Callable[[], int]) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert token_of("0.0.0.0:1", file) == TOKEN
    file.write_text("short-secret")
    with pytest.raises(ConfigError) as caught:
        token_of("0.0.0.0:1", file)
    assert "short-secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        token_of("0.0.0.0:1", tmp_path / "none")


def test_a_token_that_is_written_anew_is_taken_and_one_that_is_none_is_not(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    token = TokenFile("0.0.0.0:1", path)
    assert token.current() == TOKEN
    other = tmp_path / "other"
    other.write_text("another-token-of-some-length")
    other.replace(path)
    with capture_logs() as lines:
        assert [token.current() for _ in range(2)] == ["another-token-of-some-length"] * 2
        path.write_text("short-secret")
        assert [token.current() for _ in range(2)] == ["another-token-of-some-length"] * 2
        path.unlink()
        assert token.current() == "another-token-of-some-length"
    assert [line["log_level"] for line in lines] == ["info", "error", "error"]
    assert not any(word in json.dumps(lines) for word in ("another-token", "short-secret"))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (TOKEN, False),
        (f"Basic {TOKEN}", False),
        ("Bearer é", False),
    ],
)
def test_only_the_whole_token_opens(header: str, *, expected: bool) -> None:
    assert may_call(header, TOKEN) is expected

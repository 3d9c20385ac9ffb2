"""What only a real Redis can do to the store: refuse, hang, hold garbage, restart."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

from tests.conftest import RedisServer, accepts, until, wait_until
from tests.ports import take_free_port
from tests.store.samples import endpoint, tick
from tidegate.cli.binaries import redis_server_binary
from tidegate.domain.actions.notice import Notice
from tidegate.domain.errors import ConfigError, StoreError, StoreRefused, StoreUnavailable
from tidegate.domain.lease import Lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.sample import Status
from tidegate.domain.scaling.rule import Course, Reason, Target
from tidegate.store.picks import PickBatch
from tidegate.store.ports import ClusterDecision, Event, RawOperatorKeys
from tidegate.store.redis import RedisStore
from tidegate.store.rollouts import SplitLine

LONG_MS = 600_000
PATIENT_SECONDS = 60.0  # for answers that come at once, but not on a machine that is busy
DECISION = ClusterDecision("phi-3", {"a:1": 1}, {"a:1": {"why": "x"}})
NOTICE = Notice(key="alert:a", cause="alert A", version_ms=1, first_ms=1, last_ms=1)
TARGET = Target(desired=1, reason=Reason.LOAD, since_ms=1)

CALLS: dict[str, Callable[[RedisStore], Any]] = {
    "publish": lambda store: store.publish(tick(endpoint()), ttl_ms=LONG_MS),
    "samples": lambda store: store.samples(),
    "registered": lambda store: store.registered(),
    "roll": lambda store: store.roll(),
    "departed": lambda store: store.departed(),
    "nodes": lambda store: store.nodes(),
    "ticks": lambda store: anext(store.ticks()),
    "operator_keys": lambda store: store.operator_keys(["phi-3"], ["phi-3"]),
    "operator_key_names": lambda store: store.operator_key_names(),
    "set_field": lambda store: store.set_field("weight:phi-3", "a:1", "1"),
    "change_fields": lambda store: store.change_fields([FieldChange(key="weight:phi-3", field="a:1", value="1")], []),
    "events_after": lambda store: store.events_after(""),
    "clear_field": lambda store: store.clear_field("weight:phi-3", "a:1"),
    "write_decisions": lambda store: store.write_decisions([DECISION], {}, [Event(at_ms=1, who="a", what="b")]),
    "restore": lambda store: store.restore(RawOperatorKeys(weights={"phi-3": {"a:1": "1"}}), {("phi-3", "a:1"): 1}),
    "effective": lambda store: store.effective(["phi-3"]),
    "explain": lambda store: store.explain(["phi-3"]),
    "rejected": lambda store: store.rejected(),
    "events": lambda store: store.events(1),
    "beat": lambda store: store.beat("xds", "a", {}, ttl_ms=LONG_MS),
    "leave": lambda store: store.leave("xds", "a"),
    "present": lambda store: store.present(),
    "tell_mix": lambda store: store.tell_mix("a", {"phi-3": {"a:1": {5: 1}}}, ttl_ms=LONG_MS),
    "mixes": lambda store: store.mixes(),
    "tell_outcomes": lambda store: store.tell_outcomes("a", Report(), ttl_ms=LONG_MS),
    "outcomes": lambda store: store.outcomes(["chat"]),
    "take_lead": lambda store: store.take_lead("a", ttl_ms=LONG_MS),
    "keep_lead": lambda store: store.keep_lead(Lease("a", 1), ttl_ms=LONG_MS),
    "resign": lambda store: store.resign(Lease("a", 1)),
    "leader": lambda store: store.leader(),
    "nudge": lambda store: store.nudge(),
    "nudges": lambda store: anext(store.nudges()),
    "share": lambda store: store.share(PickBatch("a", [])),
    "shared": lambda store: anext(store.shared()),
    "acts": lambda store: store.acts(),
    "effects": lambda store: store.effects(),
    "write_acts": lambda store: store.write_acts("alerts", [], []),
    "deliver": lambda store: store.deliver([NOTICE], most=10),
    "delivered": lambda store: store.delivered(10),
    "notices": lambda store: store.notices(),
    "settle": lambda store: store.settle(0, {"alert:a": NOTICE}, [], []),
    "targets": lambda store: store.targets(["phi-3"]),
    "write_targets": lambda store: store.write_targets({"phi-3": Course(target=TARGET, automatic=TARGET)}, []),
    "rollouts": lambda store: store.rollouts(["phi-3"]),
    "note_split": lambda store: store.note_split("phi-3", SplitLine(at_ms=1, why="", versions={})),
    "split_history": lambda store: store.split_history("phi-3", 1),
    "time_ms": lambda store: store.time_ms(),
    "ping": lambda store: store.ping(),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, timeout_seconds=PATIENT_SECONDS)
    yield store
    await store.close()


@contextmanager
def fake_server(answer: bytes | None) -> Iterator[int]:
    """A listener that answers each command with `answer`, or, when None, accepts and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop, open_sockets = threading.Event(), []

    def serve() -> None:
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:  # it is shut down
                break
            peer.settimeout(0.02)
            open_sockets.append(peer)
            while answer is not None and not stop.is_set():
                try:
                    asked = peer.recv(65536)
                    if not asked:
                        break
                    peer.sendall(answer * (b"\r\n" + asked).count(b"\r\n*"))
                except TimeoutError:
                    continue
                except OSError:
                    break

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in (listener, *open_sockets):
            one.close()


async def raised_by(
    url: str, call: Callable[[RedisStore], Any], *, timeout_seconds: float = PATIENT_SECONDS
) -> StoreError:
    """What `call` raises on a store at `url`: a StoreError, never one of redis-py's."""
    store = RedisStore(url, timeout_seconds=timeout_seconds, quiet_seconds=0.1)
    try:
        with pytest.raises(StoreError) as raised:
            await asyncio.wait_for(call(store), 2 * PATIENT_SECONDS)
    finally:
        await store.close()
    assert not isinstance(raised.value, redis.exceptions.RedisError)
    assert raised.value.__cause__ is not None
    return raised.value


def test_the_table_of_calls_is_complete() -> None:
    public = {name for name, _ in inspect.getmembers(RedisStore, inspect.isfunction) if not name.startswith("_")}
    assert public - {"close"} == set(CALLS)


@each_call
async def test_no_server_is_unavailable(call: Callable[[RedisStore], Any]) -> None:
    port = take_free_port()
    error = await raised_by(f"redis://:hush@127.0.0.1:{port}/0", call)
    assert isinstance(error, StoreUnavailable)
    assert f"Redis at 127.0.0.1:{port} cannot be reached" in str(error)


@each_call
async def test_a_server_that_never_answers_is_unavailable_in_time(call: Callable[[RedisStore], Any]) -> None:
    with fake_server(None) as port:
        error = await raised_by(f"redis://127.0.0.1:{port}/0", call, timeout_seconds=0.05)
    assert isinstance(error, StoreUnavailable)
    assert f"Redis at 127.0.0.1:{port} does not answer" in str(error) or "cannot be reached" in str(error)


@each_call
@pytest.mark.parametrize(
    "answer",
    [
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-MISCONF Redis is configured to save RDB snapshots\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
        b"-ERR max number of clients reached\r\n",
        b"-SOMETHING nobody has seen\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=lambda answer: answer.split()[0].decode(),
)
async def test_an_error_answer_is_unavailable(call: Callable[[RedisStore], Any], answer: bytes) -> None:
    with fake_server(answer) as port:
        error = await raised_by(f"redis://127.0.0.1:{port}/0", call)
    assert isinstance(error, StoreUnavailable)
    assert "does not answer" not in str(error)


@each_call
async def test_a_wrong_password_is_refused_without_being_told(
    own_password: RedisServer, call: Callable[[RedisStore], Any]
) -> None:
    error = await raised_by(f"redis://:wrong-secret@127.0.0.1:{own_password.port}/0", call)
    assert isinstance(error, StoreRefused)
    expected = f"Redis at 127.0.0.1:{own_password.port} refuses the password; set redis.url to redis://:PASSWORD@"
    assert expected in str(error)
    assert "wrong-secret" not in str(error)


@each_call
async def test_a_missing_password_is_refused(own_password: RedisServer, call: Callable[[RedisStore], Any]) -> None:
    error = await raised_by(own_password.url, call)
    assert isinstance(error, StoreRefused)
    assert "set redis.url to redis://:PASSWORD@" in str(error)


@pytest.fixture(scope="module")
def own_password(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("secret"), arguments=("--requirepass", "s3cret"))
    server.start()
    yield server
    server.stop()


async def test_the_right_password_is_accepted(own_password: RedisServer) -> None:
    store = RedisStore(f"redis://:s3cret@127.0.0.1:{own_password.port}/0", timeout_seconds=PATIENT_SECONDS)
    await store.ping()
    await store.close()


async def test_a_password_that_redis_does_not_have_is_refused(redis_url: str) -> None:
    error = await raised_by(redis_url.replace("redis://", "redis://:needless@"), CALLS["ping"])
    assert isinstance(error, StoreRefused)
    assert "has no password; take the password out of redis.url" in str(error)
    assert "needless" not in str(error)


async def test_a_user_without_permission_is_refused(own_redis: RedisServer) -> None:
    own_redis.cli("ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@read", "+ping", "+multi", "+exec")
    url = f"redis://reader:pw@127.0.0.1:{own_redis.port}/0"
    error = await raised_by(url, CALLS["set_field"])
    assert isinstance(error, StoreRefused)
    assert "hset" in str(error).lower()
    assert isinstance(await raised_by(url, CALLS["publish"]), StoreRefused)


async def test_a_name_that_does_not_resolve_is_unavailable() -> None:
    error = await raised_by("redis://no-such-host.invalid:6379/0", CALLS["ping"])
    assert isinstance(error, StoreUnavailable)


async def test_a_plain_server_behind_a_tls_url_is_unavailable(redis_server: RedisServer) -> None:
    """It waits for the end of a line that TLS never sends."""
    error = await raised_by(f"rediss://127.0.0.1:{redis_server.port}/0", CALLS["ping"], timeout_seconds=0.2)
    assert isinstance(error, StoreUnavailable)


async def test_a_stopped_redis_hangs_nobody_and_is_used_again_when_it_runs_on(own_redis: RedisServer) -> None:
    assert own_redis.process is not None
    store = RedisStore(own_redis.url, timeout_seconds=0.2)
    await until(lambda: answers(store), what="answering")
    os.kill(own_redis.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await asyncio.wait_for(store.publish(tick(endpoint()), ttl_ms=LONG_MS), PATIENT_SECONDS)
    finally:
        os.kill(own_redis.process.pid, signal.SIGCONT)
    await until(lambda: answers(store), what="answering again")
    await store.close()


async def answers(store: RedisStore) -> bool:
    try:
        await store.ping()
    except StoreUnavailable:
        return False
    return True


async def test_a_restarted_redis_is_used_again(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS)
    await store.ping()
    own_redis.stop()
    with pytest.raises(StoreUnavailable):
        await store.ping()
    own_redis.start()
    await until(lambda: answers(store), what="answering again")
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    assert [endpoint()] == await store.samples()
    await store.close()


async def test_cancelling_a_call_leaves_the_store_usable(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS)
    await store.set_field("weight:phi-3", "a:1", "5")
    for _ in range(20):
        call = asyncio.create_task(store.operator_keys(["phi-3"], []))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await store.operator_keys(["phi-3"], [])).weights["phi-3"] == {"a:1": "5"}
    await store.close()


# --- ticks ---------------------------------------------------------------------------------------------------


async def subscribed(server: RedisServer) -> None:
    counted = lambda: server.cli("PUBSUB", "NUMSUB", "tidegate:samples").split()[-1]  # noqa: E731
    await until(lambda: counted() == "1", what="subscribed")


async def test_ticks_outlive_silence(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS, quiet_seconds=0.05)
    reader = asyncio.ensure_future(anext(store.ticks()))

    def pings() -> int:
        found = re.search(r"cmdstat_ping:calls=(\d+)", own_redis.cli("INFO", "commandstats"))
        return int(found[1]) if found else 0

    await until(lambda: pings() >= 3, what="three PINGs in silence")
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    assert tick(endpoint()) == await asyncio.wait_for(reader, PATIENT_SECONDS)
    await store.close()


async def test_ticks_skip_garbage(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS)
    reader = asyncio.ensure_future(anext(store.ticks()))
    await subscribed(own_redis)
    for garbage in ("", "not json", "[]", "{}", '{"node": 7}', "\\xff"):
        own_redis.cli("PUBLISH", "tidegate:samples", garbage)
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    assert tick(endpoint()) == await asyncio.wait_for(reader, PATIENT_SECONDS)
    await store.close()


async def test_ticks_end_when_redis_dies(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS, quiet_seconds=0.1)
    reader = asyncio.ensure_future(anext(store.ticks()))
    await subscribed(own_redis)
    own_redis.stop()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(reader, PATIENT_SECONDS)
    await store.close()


async def test_ticks_end_when_the_connection_is_silently_dead(own_redis: RedisServer) -> None:
    assert own_redis.process is not None
    store = RedisStore(own_redis.url, timeout_seconds=1.0, quiet_seconds=0.1)
    reader = asyncio.ensure_future(anext(store.ticks()))
    await subscribed(own_redis)
    os.kill(own_redis.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(reader, PATIENT_SECONDS)
    finally:
        os.kill(own_redis.process.pid, signal.SIGCONT)
    await store.close()


# --- what operators and strangers leave in Redis -------------------------------------------------------------


async def test_plain_hset_is_all_an_operator_needs(store: RedisStore, redis_cli: Callable[..., str]) -> None:
    redis_cli("HSET", "tidegate:weight:phi-3", "10.0.0.5:8000", "banana")
    assert (await store.operator_keys(["phi-3"], [])).weights == {"phi-3": {"10.0.0.5:8000": "banana"}}


async def test_an_operator_key_of_another_type_breaks_itself_alone(
    store: RedisStore, redis_cli: Callable[..., str]
) -> None:
    redis_cli("SET", "tidegate:weight:phi-3", "x")
    redis_cli("HSET", "tidegate:weight:sdxl", "a:1", "5")
    keys = await store.operator_keys(["phi-3", "sdxl"], [])
    assert keys.weights == {"sdxl": {"a:1": "5"}}
    assert keys.broken == {"weight:phi-3": "is not a hash; remove it with DEL tidegate:weight:phi-3"}
    with pytest.raises(StoreRefused, match="DEL tidegate:weight:phi-3"):
        await store.set_field("weight:phi-3", "a:1", "1")


async def test_text_that_is_not_utf8_is_shown_not_raised(store: RedisStore, redis_cli: Callable[..., str]) -> None:
    redis_cli("EVAL", "return redis.call('HSET', KEYS[1], 'a:1', '\\255')", "1", "tidegate:weight:phi-3")
    assert (await store.operator_keys(["phi-3"], [])).weights["phi-3"] == {"a:1": "\ufffd"}


async def test_sample_keys_of_another_type_are_replaced_by_the_agent(
    store: RedisStore, redis_cli: Callable[..., str]
) -> None:
    redis_cli("SET", "tidegate:endpoint:phi-3:10.0.0.5:8000", "x")
    redis_cli("ZADD", "tidegate:endpoints", "1", "phi-3|10.0.0.5:8000", "2", "no bar")
    assert await store.samples() == []
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    assert [endpoint()] == await store.samples()


async def test_an_index_of_another_type_says_what_to_remove(store: RedisStore, redis_cli: Callable[..., str]) -> None:
    redis_cli("SET", "tidegate:endpoints", "x")
    with pytest.raises(StoreRefused, match="DEL tidegate:endpoints"):
        await store.samples()


async def test_decisions_replace_keys_of_another_type(store: RedisStore, redis_cli: Callable[..., str]) -> None:
    for name in ("effective:phi-3", "explain:phi-3", "rejected"):
        redis_cli("SET", f"tidegate:{name}", "x")
    assert (
        await store.effective(["phi-3"]),
        await store.explain(["phi-3"]),
        await store.rejected(),
    ) == ({"phi-3": {}}, {"phi-3": {}}, {})
    await store.write_decisions([DECISION], {"tune": "no"}, [])
    assert await store.effective(["phi-3"]) == {"phi-3": {"a:1": 1}}


async def test_the_keys_are_those_of_the_schema(store: RedisStore, redis_cli: Callable[..., str]) -> None:
    await store.publish(tick(endpoint()), ttl_ms=LONG_MS)
    await store.write_decisions([DECISION], {"tune": "no"}, [Event(at_ms=1, who="a", what="b")])
    await store.beat("xds", "host:7", {}, ttl_ms=LONG_MS)
    expected = """
        effective:phi-3 endpoint:phi-3:10.0.0.5:8000 endpoints events explain:phi-3 node:gpu-1 nodes rejected
        service:xds:host:7 services
    """
    assert {f"tidegate:{name}" for name in expected.split()} == set(redis_cli("KEYS", "*").split())
    assert redis_cli("ZRANGE", "tidegate:endpoints", "0", "-1") == "phi-3|10.0.0.5:8000"
    for key in ("node:gpu-1", "endpoint:phi-3:10.0.0.5:8000", "service:xds:host:7"):
        assert 0 < int(redis_cli("PTTL", f"tidegate:{key}")) <= LONG_MS


@pytest.mark.parametrize("call", ["publish", "write_decisions", "beat", "leave"])
async def test_what_belongs_together_is_one_transaction(own_redis: RedisServer, call: str) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS)
    await CALLS[call](store)
    assert "cmdstat_exec:calls=1," in own_redis.cli("INFO", "commandstats")
    await store.close()


async def test_operator_keys_are_read_once_each(own_redis: RedisServer) -> None:
    store = RedisStore(own_redis.url, timeout_seconds=PATIENT_SECONDS)
    await store.operator_keys(["phi-3", "sdxl"], ["m"])
    assert "cmdstat_hgetall:calls=9," in own_redis.cli("INFO", "commandstats")
    await store.close()


async def test_who_is_silent_for_an_hour_leaves_the_indexes(redis_url: str, redis_cli: Callable[..., str]) -> None:
    now = [1_700_000_000_000]
    store = RedisStore(redis_url, timeout_seconds=PATIENT_SECONDS, clock_ms=lambda: now[0])
    await store.beat("xds", "old", {}, ttl_ms=LONG_MS)
    await store.publish(tick(node="old", at_ms=now[0]), ttl_ms=LONG_MS)
    now[0] += 3_600_001
    await store.beat("xds", "fresh", {}, ttl_ms=LONG_MS)
    await store.publish(tick(node="fresh", at_ms=now[0]), ttl_ms=LONG_MS)
    assert redis_cli("ZRANGE", "tidegate:services", "0", "-1") == "xds|fresh"
    assert redis_cli("ZRANGE", "tidegate:nodes", "0", "-1") == "fresh"
    await store.close()


async def test_a_prefix_keeps_two_fleets_apart(redis_url: str, redis_cli: Callable[..., str]) -> None:
    store = RedisStore(redis_url, "blue", timeout_seconds=PATIENT_SECONDS)
    await store.set_field("weight:phi-3", "a:1", "1")
    assert redis_cli("KEYS", "*") == "blue:weight:phi-3"
    await store.close()


async def test_a_hand_written_sample_needs_only_its_three_required_fields(
    store: RedisStore, redis_cli: Callable[..., str]
) -> None:
    key = "tidegate:endpoint:phi-3:a:1"
    redis_cli("ZADD", "tidegate:endpoints", "1", "phi-3|a:1")
    redis_cli("HSET", key, "node", "n", "sampled_at_ms", "5", "running", "many", "kv_used_ratio", "nan")
    assert await store.samples() == []
    redis_cli("HSET", key, "seq", "1", "extra", "ignored")
    [sample] = await store.samples()
    assert (sample.status, sample.running, sample.kv_used_ratio) == (Status.UNREACHABLE, None, None)


async def test_the_audit_log_is_capped(store: RedisStore, redis_cli: Callable[..., str]) -> None:
    events = [Event(at_ms=at, who="controller", what="w") for at in range(500)]
    for _ in range(24):
        await store.write_decisions([], {}, events)
    assert 10_000 <= int(redis_cli("XLEN", "tidegate:events")) < 10_200


# --- other ways to reach a Redis -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["http://a", "redis://", "redis://a:x/0", "redis://a:1/x", "redis+sentinel://a:1", "redis://a:1/0?bogus=1"],
)
def test_a_bad_url_is_a_fault_of_the_configuration(url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\.url"):
        RedisStore(url)


async def round_trip(store: RedisStore) -> None:
    await store.publish(tick(endpoint("a:1"), endpoint("b:1")), ttl_ms=LONG_MS)
    await store.write_decisions([DECISION], {"tune": "no"}, [Event(at_ms=1, who="a", what="b")])
    assert {"a:1", "b:1"} == {one.address for one in await store.samples()}
    assert await store.time_ms() > 1_700_000_000_000
    assert await store.effective(["phi-3"]) == {"phi-3": {"a:1": 1}}
    await store.set_field("weight:phi-3", "a:1", "1")
    assert (await store.operator_keys(["phi-3", "sdxl"], ["m"])).weights == {"phi-3": {"a:1": "1"}}
    ticks = store.ticks()
    reader = asyncio.ensure_future(anext(ticks))
    while not reader.done():
        await store.publish(tick(endpoint("a:1")), ttl_ms=LONG_MS)
        await asyncio.wait({reader}, timeout=0.05)
    assert tick(endpoint("a:1")) == await reader
    await ticks.aclose()
    await store.close()


async def test_a_unix_socket_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("s")
    server = RedisServer(folder, arguments=("--unixsocket", str(folder / "r.sock")))
    server.start()
    try:
        await round_trip(RedisStore(f"unix://{folder / 'r.sock'}?db=0", timeout_seconds=PATIENT_SECONDS))
    finally:
        server.stop()


async def test_a_cluster_works(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, arguments=("--cluster-enabled", "yes"))
    server.start()
    try:
        for start in range(0, 16384, 4096):
            server.cli("CLUSTER", "ADDSLOTS", *map(str, range(start, start + 4096)))
        wait_until(lambda: "cluster_state:ok" in server.cli("CLUSTER", "INFO"), what="the cluster's slots")
        await round_trip(RedisStore(f"redis+cluster://127.0.0.1:{server.port}", timeout_seconds=PATIENT_SECONDS))
    finally:
        server.stop()


async def test_a_cluster_that_is_not_there_is_unavailable() -> None:
    error = await raised_by(f"redis+cluster://127.0.0.1:{take_free_port()}", CALLS["ping"])
    assert isinstance(error, StoreUnavailable)


@pytest.fixture
def sentinel_port(own_redis: RedisServer, tmp_path: Path) -> Iterator[int]:
    """A Sentinel that watches `own_redis` as the service `fleet`."""
    port, config = take_free_port(), tmp_path / "sentinel.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor fleet 127.0.0.1 {own_redis.port} 1\n")
    process = subprocess.Popen([redis_server_binary(), config, "--sentinel"], stdout=subprocess.DEVNULL)
    wait_until(lambda: accepts(port), what="the Sentinel listening")
    yield port
    process.kill()
    process.wait()


async def test_a_sentinel_names_the_master(sentinel_port: int) -> None:
    await round_trip(RedisStore(f"redis+sentinel://127.0.0.1:{sentinel_port}/fleet/0", timeout_seconds=PATIENT_SECONDS))
    unknown = await raised_by(f"redis+sentinel://127.0.0.1:{sentinel_port}/nobody/0", CALLS["ping"])
    assert isinstance(unknown, StoreUnavailable)

"""Faults, the record of requests, and HTTP's corners."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys

import httpx
import pytest

from simulator.app import start
from simulator.http.errors import ApiError
from simulator.http.faults import Fault, FaultKind, Faults
from tests.conftest import until
from tests.simulator.conftest import Client, Start, chat
from tidegate.domain.errors import ConfigError
from tidegate.settings.services import EngineSimSettings

CHAT = "/v1/chat/completions"


async def ask(engine: Client, **more: object) -> httpx.Response:
    return await engine.http.post(CHAT, json=chat(max_tokens=1, **more))


async def raw(engine: Client, data: bytes) -> bytes:
    """Send bytes on a fresh connection; what comes back until the server closes."""
    host, port = engine.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_every_answer_names_its_engine(start_engine: Start) -> None:
    engine = await start_engine()
    answers = [await ask(engine), await engine.http.get("/health"), await engine.http.get("/nothing")]
    answers.append(await ask(engine, stream=True))
    assert {answer.headers["x-sim-engine"] for answer in answers} == {engine.address}


async def test_error_answers_the_status_asked_for_and_spares_health(start_engine: Start) -> None:
    engine = await start_engine()
    await engine.http.post("/sim/fault", json={"fault": "error", "status": 502})
    assert [(await ask(engine)).status_code, (await engine.http.get("/health")).status_code] == [502, 200]
    await engine.http.post("/sim/fault", json={"fault": "none"})
    assert (await ask(engine)).status_code == 200


async def test_error_meets_the_share_asked_for(start_engine: Start) -> None:
    engine = await start_engine(time_scale=1000.0)
    await engine.http.post("/sim/fault", json={"fault": "error", "share": 0.5})
    failed = [(await ask(engine)).status_code for _ in range(40)].count(500)
    assert 5 <= failed <= 35


async def test_hang_accepts_and_never_answers(start_engine: Start) -> None:
    engine = await start_engine(fault="hang")
    for path in ("/health", "/metrics"):
        with pytest.raises(httpx.ReadTimeout):
            await engine.http.get(path, timeout=httpx.Timeout(60, read=0.2))
    await engine.http.post("/sim/fault", json={"fault": "none"})
    assert (await engine.http.get("/health")).status_code == 200


async def test_loading_answers_503_until_it_is_lifted(start_engine: Start) -> None:
    engine = await start_engine(fault="loading")
    assert [(await ask(engine)).status_code, (await engine.http.get("/health")).status_code] == [503, 503]
    assert (await engine.http.get("/metrics")).status_code == 200
    await engine.http.post("/sim/fault", json={"fault": "none"})
    assert [(await ask(engine)).status_code, (await engine.http.get("/health")).status_code] == [200, 200]


async def test_loading_ends_by_itself_at_its_time() -> None:
    now = 0.0
    faults = Faults(Fault(FaultKind.NONE), random.Random(), lambda: now, loading_until=5.0)
    with pytest.raises(ApiError) as error:
        await faults.meet(generating=True)
    await faults.meet(generating=False)
    assert (error.value.status, faults.loading) == (503, True)
    now = 5.0
    await faults.meet(generating=True)
    assert not faults.loading


async def test_an_engine_loads_for_as_long_as_it_is_told(start_engine: Start) -> None:
    engine = await start_engine(loading_seconds=600.0)
    assert (await engine.http.get("/health")).status_code == 503


@pytest.mark.parametrize("body", [{"fault": "bored"}, {"fault": "error", "share": 2}, {}])
async def test_unknown_faults_are_answered_400(start_engine: Start, body: dict[str, object]) -> None:
    engine = await start_engine()
    assert (await engine.http.post("/sim/fault", json=body)).status_code == 400


async def test_a_client_that_leaves_frees_its_blocks(start_engine: Start) -> None:
    engine = await start_engine(time_scale=1.0)
    async with engine.http.stream("POST", CHAT, json=chat(max_tokens=8000, stream=True)) as stream:
        await anext(stream.aiter_lines())
        assert await engine.metric("vllm:num_requests_running") == 1

    async def gone() -> bool:
        return await engine.metric("vllm:request_success_total", finished_reason="abort") == 1

    await until(gone)
    assert await engine.metric("vllm:num_requests_running") == 0
    assert await engine.metric("vllm:kv_cache_usage_perc") == 0


async def test_what_was_received_is_recorded_byte_for_byte(start_engine: Start) -> None:
    engine = await start_engine(record_requests=True)
    bodies = [b'{"messages": [{"role":"user" ,"content":"\xc3\xa9"}],"max_tokens":1}', b"\x1f\x8bnot gzip"]
    for body in bodies:
        headers = {"x-probe": "1", "content-encoding": "gzip"}
        await engine.http.post(f"{CHAT}?a=b", content=body, headers=headers)
    await engine.http.get("/health")
    seen = (await engine.http.get("/sim/requests?last=2")).json()
    assert [entry["sha256"] for entry in seen] == [hashlib.sha256(body).hexdigest() for body in bodies]
    assert [entry["body_bytes"] for entry in seen] == [len(body) for body in bodies]
    assert {(entry["method"], entry["path"]) for entry in seen} == {("POST", f"{CHAT}?a=b")}
    assert ["x-probe", "1"] in seen[0]["headers"]


async def test_nothing_is_recorded_unless_asked_for(start_engine: Start) -> None:
    engine = await start_engine()
    await ask(engine)
    assert (await engine.http.get("/sim/requests")).status_code == 404


async def test_bodies_of_many_mebibytes_are_read_and_larger_ones_refused(start_engine: Start) -> None:
    engine = await start_engine(max_model_len=16_384)
    head, tail = b'{"messages":[{"role":"user","content":"', b'"}],"max_tokens":1}'
    large = await engine.http.post(CHAT, content=head + b"x" * (20 << 20) + tail)
    assert (large.status_code, "maximum context length" in large.text) == (400, True)
    assert (await engine.http.post(CHAT, content=b"x" * ((64 << 20) + 1))).status_code == 413


async def test_chunked_bodies_with_trailers_and_expectations_are_read(start_engine: Start) -> None:
    engine = await start_engine()
    body = json.dumps(chat(max_tokens=1)).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nx-sum: 1\r\n\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n".encode()
    chunked = await raw(engine, head + b"transfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n" + chunks)
    assert chunked.startswith(b"HTTP/1.1 200")
    length = b"content-length: %d\r\nexpect: 100-continue\r\n\r\n" % len(body)
    expecting = await raw(engine, head + length + body)
    assert expecting.startswith(b"HTTP/1.1 100")
    assert b"HTTP/1.1 200" in expecting


async def test_streams_end_with_done(start_engine: Start) -> None:
    engine = await start_engine()
    answer = await ask(engine, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_a_cache_of_no_given_size_holds_the_longest_sequence(start_engine: Start) -> None:
    engine = await start_engine(max_model_len=131_072)
    assert await engine.metric("vllm:cache_config_info", num_gpu_blocks="8193") == 1


async def test_a_port_in_use_is_said_in_a_sentence(start_engine: Start) -> None:
    engine = await start_engine()
    port = int(engine.address.rpartition(":")[2])
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
        await start(EngineSimSettings(port=port))


@pytest.mark.parametrize(
    "settings",
    [{"kind": "audio"}, {"fault": "die"}, {"kv_blocks": 10}, {"model": []}, {"time_scale": 0.0}],
    ids=lambda settings: next(iter(settings)),
)
async def test_settings_that_make_no_engine_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        await start(EngineSimSettings(port=0, **settings))


async def test_the_process_says_where_it_listens_dies_when_told_and_ends_when_asked() -> None:
    code = "import asyncio; from simulator.app import serve; from tidegate.settings.services import *; "
    code += "asyncio.run(serve(EngineSimSettings(port=0)))"

    async def begin() -> tuple[asyncio.subprocess.Process, str]:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        return process, line.decode().split()[-1]

    process, address = await begin()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await http.post(f"http://{address}/sim/fault", json={"fault": "die"})
    assert await asyncio.wait_for(process.wait(), 60) == 1
    process, address = await begin()
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 60) == 0

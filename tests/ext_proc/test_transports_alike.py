"""To the same messages both transports give the same bytes, and the same status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio
from envoy.config.core.v3 import base_pb2
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc import StatusCode, aio
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.health import EXTERNAL_PROCESSOR, Health
from ext_proc.transport.grpcio import GrpcioServer
from ext_proc.transport.wire import WireServer
from tests.ext_proc.parts import FILTER, Picker

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
Outcome = tuple[list[bytes], StatusCode, str]
"""Answers, and how the stream ended."""

models = st.sampled_from(["phi-3", "qwen2.5-72b", "nobody", "gpt-9", "", "\N{SNOWMAN}"])
bodies = st.one_of(
    st.binary(max_size=60),
    st.builds(lambda model, text: json.dumps({"model": model, "prompt": text}).encode(), models, st.text(max_size=400)),
    st.builds(lambda model, n: json.dumps({"model": model, "messages": "x" * n}).encode(), models, st.integers(0, 70_000)),
)  # fmt: skip
names = ("request.path", "request.headers['content-type']", "request.headers['x-canary']")
attributes = st.dictionaries(
    st.sampled_from(names), st.sampled_from(["/v1/completions", "/v1/chat/completions", "true"])
)


def body_message(body: bytes, told: dict[str, str], mode: int, end: bool) -> bytes:
    message = pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=end))
    message.protocol_config.request_body_mode = ProcessingMode.BodySendMode.ValueType(mode)
    for name, value in told.items():
        message.attributes[FILTER][name] = value
    return message.SerializeToString()


def headers_message(value: bytes) -> bytes:
    header = base_pb2.HeaderValue(key="x", raw_value=value)
    return pb.ProcessingRequest(
        request_headers=pb.HttpHeaders(headers=base_pb2.HeaderMap(headers=[header]))
    ).SerializeToString()


others = st.sampled_from(
    [
        pb.ProcessingRequest(request_trailers=pb.HttpTrailers()).SerializeToString(),
        pb.ProcessingRequest(response_headers=pb.HttpHeaders()).SerializeToString(),
        pb.ProcessingRequest(response_body=pb.HttpBody(body=b"x")).SerializeToString(),
        pb.ProcessingRequest(response_trailers=pb.HttpTrailers()).SerializeToString(),
        b"",
        b"\xff\xff",
    ]
)
buffered = st.builds(body_message, bodies, attributes, st.just(0), st.booleans())
any_mode = st.builds(body_message, bodies, attributes, st.integers(0, 4), st.booleans())
messages = st.one_of(buffered, buffered, any_mode, st.builds(headers_message, st.binary(max_size=20)), others)
conversations = st.lists(st.lists(messages, min_size=0, max_size=4), min_size=1, max_size=4)


@dataclass
class Side:
    """A transport with a picker of its own, and a client."""

    server: GrpcioServer | WireServer
    channel: aio.Channel

    async def talk(self, said: Sequence[bytes]) -> Outcome:
        """One stream. A message goes once the one before it is answered."""
        call = self.channel.stream_stream(f"/{EXTERNAL_PROCESSOR}/Process")()
        heard: list[bytes] = []
        try:
            for message in said:
                await call.write(message)
                if (answer := await call.read()) is aio.EOF:
                    break
                heard.append(answer)
            await call.done_writing()
        except (aio.AioRpcError, asyncio.InvalidStateError):
            pass
        return heard, await call.code(), await call.details()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def sides() -> AsyncIterator[tuple[Side, Side]]:
    """Both, on pickers that start alike and have the same clock."""
    made = [await start(kind) for kind in (GrpcioServer, WireServer)]
    yield made[0], made[1]
    for side in made:
        await side.channel.close()
        await side.server.stop(0)


async def start(kind: type[GrpcioServer | WireServer]) -> Side:
    picker = Picker(explain=True)
    for number, waiting in ((1, 3), (2, 0)):
        picker.sample(f"10.0.0.{number}:8000", waiting=waiting)
    server = kind(picker.session, Health(), picker.metrics, max_body_bytes=1 << 20)
    address = await server.start("127.0.0.1:0")
    return Side(server, aio.insecure_channel(address, options=UNLIMITED))


async def test_both_transports_answer_byte_for_byte_alike(sides: tuple[Side, Side]) -> None:
    loop, seen = asyncio.get_running_loop(), set[StatusCode]()

    async def both(said: Sequence[bytes]) -> None:
        reference, ours = [await side.talk(said) for side in sides]
        assert ours == reference
        seen.add(ours[1])

    @settings(max_examples=60, deadline=None)
    @given(conversations)
    def alike(streams: list[list[bytes]]) -> None:
        for said in streams:
            asyncio.run_coroutine_threadsafe(both(said), loop).result(60)

    await asyncio.to_thread(alike)
    assert seen == {StatusCode.OK, StatusCode.INVALID_ARGUMENT}

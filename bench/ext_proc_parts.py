"""Where ext_proc's time for one request goes: `python -m bench.ext_proc_parts`.

One process, no sockets: frames as Envoy writes them go into a connection of `wire`, and what stands behind it is all of
ext_proc, with a `pick` cluster of four replicas, fresh samples and prefix-aware costs. Prompts are different ones that
the replicas know. Times are of the processor, the least mean of many short batches, so that a busy machine counts
little; parts are measured apart, with warm caches, so that their sum is less than the whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from struct import pack
from time import monotonic, thread_time_ns
from typing import Any, Final

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from hpack import Encoder
from prometheus_client import CollectorRegistry

from bench.body import MODEL, PATH, chat_body
from ext_proc.buffered import Pieces, Reader
from ext_proc.decide import Decider
from ext_proc.flow.gates import Gates
from ext_proc.flow.weigh import work_of
from ext_proc.metrics import ExtProcMetrics
from ext_proc.mix import MixBook
from ext_proc.outputs import OutputBook
from ext_proc.parse.request import parse_request
from ext_proc.responses import routed
from ext_proc.route import Routes
from ext_proc.session import Session
from ext_proc.tokens import TokenBook
from ext_proc.transport.grpc_calls import Calls
from ext_proc.transport.grpcio import ByteSession
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.methods import Process
from ext_proc.view import FleetView
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Cluster, Endpoint, Topology
from tidegate.runtime import now_ms

REPLICAS: Final = [f"10.0.0.{n}:8000" for n in range(1, 5)]
SIZES: Final = {"2 KiB": 2 << 10, "220 KiB": 220 << 10}
PROMPTS: Final = 32
BATCH: Final = 8
BUDGET_SECONDS: Final = 0.8
LIMIT_BYTES: Final = 32 << 20
METHOD: Final = b"/envoy.service.ext_proc.v3.ExternalProcessor/Process"
FIELDS: Final = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", METHOD),
    (b":authority", b"ext_proc"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)


class World:
    """All of ext_proc but its sockets, its store and its tasks."""

    def __init__(self) -> None:
        topology = Topology((Cluster(MODEL, (MODEL,), endpoints=tuple(Endpoint(one) for one in REPLICAS)),))
        tokens, self.outputs = TokenBook([MODEL]), OutputBook([MODEL])
        self.metrics = ExtProcMetrics(CollectorRegistry(), tokens)
        self.view = FleetView(topology, 3000)
        self.routes = Routes(topology, self.view.cluster_listing, tokens.ratio_of)
        self.decider = Decider(
            self.routes,
            self.view,
            tokens,
            self.metrics,
            max_request_bytes=LIMIT_BYTES,
            clock=now_ms,
            gates=Gates(self.view, now_ms),
            outputs=self.outputs,
            mix=MixBook(now_ms),
        )
        self._numbers = count(1)
        self.sample()

    def sample(self) -> None:
        """Each replica tells how it is: what was sent since was worked off."""
        number, now = next(self._numbers), now_ms()
        self.view.sampled((_sample(address, number, now) for address in REPLICAS), now)
        self.view.weighted({MODEL: dict.fromkeys(REPLICAS, 500)})


def _sample(address: str, number: int, now: int) -> EndpointSample:
    return EndpointSample(
        cluster=MODEL,
        address=address,
        node="bench",
        sampled_at_ms=now,
        seq=number,
        status=Status.READY,
        running=4,
        waiting=0,
        kv_used_ratio=0.2,
        kv_capacity_tokens=500_000,
        block_size=16,
        prompts_total=100 * number,
        prompt_tokens_total=50_000 * number,
        models=(MODEL,),
    )


class Wire:
    """A connection as Envoy keeps one: a stream a request, of which one body message and its end."""

    def __init__(self, world: World, new_session: Callable[[], ByteSession]) -> None:
        calls = Calls(
            {METHOD: lambda call: Process(call, new_session(), world.metrics)},
            lambda _seconds, _callback: lambda: None,
            lambda: None,
            max_message_bytes=2 * LIMIT_BYTES,
            max_buffered_bytes=1 << 30,
        )
        self._connection = calls.connection = Connection(calls)
        self._streams, encoder = count(1, 2), Encoder()
        self._taken = 0
        first, self._block = encoder.encode(FIELDS), encoder.encode(FIELDS)
        self._connection.receive(frames.PREFACE + frames.settings({}) + frames.SETTINGS_ACK, 0.0)
        self._connection.receive(frames.frame(frames.HEADERS, 5, next(self._streams), first), 0.0)
        self._connection.sender.take()

    def request(self, message: bytes) -> None:
        """One stream from its first byte to its reset, by which Envoy ends each."""
        stream, connection = next(self._streams), self._connection
        framed = pack(">BI", 0, len(message)) + message
        pieces = [framed[at : at + (1 << 14)] for at in range(0, len(framed), 1 << 14)]
        sent = b"".join(frames.frame(frames.DATA, 0, stream, piece) for piece in pieces)
        connection.receive(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, self._block) + sent, monotonic())
        self._taken += len(connection.sender.take())
        end = frames.reset(stream, frames.ErrorCode.NO_ERROR)
        if self._taken > frames.FIRST_WINDOW // 2:
            end, self._taken = end + frames.window_update(0, self._taken), 0
        connection.receive(end, monotonic())
        if connection.closed:
            raise RuntimeError(f"the connection was closed: {connection.fault}")


class _Fixed:
    """Answers any message with the same bytes."""

    _ANSWER: Final = routed(MODEL, (REPLICAS[0], REPLICAS[1]))

    def handle(self, _: bytes | Pieces) -> bytes:
        return self._ANSWER


def measure(size: int) -> dict[str, float]:
    """µs by part, for bodies of `size` bytes; `all` is the whole without sockets."""
    world, reader, turn = World(), Reader(), count()
    bodies = [chat_body(size, start=f"Prompt {random.Random(n).random()}: ") for n in range(PROMPTS)]
    messages = [_message(body) for body in bodies]
    infos = [_parse(body) for body in bodies]
    works = [work_of(info, 4.0, 256, None) for info in infos]
    cluster, fixed = world.view.cluster(MODEL), Wire(world, _Fixed)
    whole = Wire(world, lambda: Session(world.decider.decide, reader))
    parts: dict[str, Callable[[int], object]] = {
        "frames and gRPC": lambda at: fixed.request(messages[at]),
        "message": lambda at: reader.read([messages[at]]),
        "body": lambda at: _parse(bodies[at]),
        "route": lambda at: world.routes.route(infos[at], lambda _: None),
        "work": lambda at: work_of(infos[at], 4.0, world.outputs.expected(MODEL, infos[at]), None),
        "pick and dispatch": lambda at: cluster.pick(works[at], now_ms()),
        "all": lambda at: whole.request(messages[at]),
    }
    return {name: _least(part, world, turn) for name, part in parts.items()}


def _message(body: bytes) -> bytes:
    message = pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=True))
    fields = message.attributes["envoy.filters.http.ext_proc"].fields
    fields["request.path"].string_value = PATH
    fields["request.headers['content-type']"].string_value = "application/json"
    message.protocol_config.request_body_mode = 2
    return bytes(message.SerializeToString())


def _parse(body: bytes) -> Any:
    return parse_request(body, path=PATH, content_type="application/json", content_encoding=None, max_bytes=LIMIT_BYTES)


def _least(part: Callable[[int], object], world: World, turn: Iterator[int]) -> float:
    """The least mean of a batch of calls, each with the next prompt, in µs; samples come between batches."""
    least, spent = float("inf"), 0
    while spent < BUDGET_SECONDS * 1e9:
        world.sample()
        started = thread_time_ns()
        for _ in range(BATCH):
            part(next(turn) % PROMPTS)
        took = thread_time_ns() - started
        least, spent = min(least, took / BATCH), spent + took
    return least / 1e3


def figures() -> list[dict[str, Any]]:
    """The parts as `make bench` shows them."""
    return [
        {"name": f"ext_proc, {name}: {part}", "value": value, "unit": "µs", "target": None}
        for name, size in SIZES.items()
        for part, value in measure(size).items()
    ]


def main() -> None:
    """Print a table."""
    columns = {name: measure(size) for name, size in SIZES.items()}
    print(f"{'µs of the processor':<22}", *(f"{name:>9}" for name in columns))
    for part in next(iter(columns.values())):
        print(f"{part:<22}", *(f"{column[part]:>9.1f}" for column in columns.values()))


if __name__ == "__main__":
    main()

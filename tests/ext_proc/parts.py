"""Builders shared by the ext_proc tests: a small fleet, Envoy's messages, and how its answers are read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.json_format import MessageToDict
from prometheus_client import CollectorRegistry

from ext_proc.decide import Decider
from ext_proc.flow.gates import Gates
from ext_proc.flow.later import Later, Reply
from ext_proc.flow.metrics import QueueMetrics
from ext_proc.metrics import ExtProcMetrics
from ext_proc.recent import RecentRequests
from ext_proc.route import Routes
from ext_proc.session import Session
from ext_proc.tokens import TokenBook
from ext_proc.view import FleetView
from tidegate.domain.flow.classes import Classes
from tidegate.domain.sample import EndpointSample, Status
from tidegate.domain.topology import Cluster, Endpoint, LbPolicy, Topology

NOW = 1_800_000_000_000
TTL_MS = 3000
FILTER = "envoy.filters.http.ext_proc"


def topology(replicas: int = 2, default_model: str | None = None) -> Topology:
    """`phi-3` (pick, replicas 10.0.0.1:8000 …), `qwen` (weighted, one replica), `empty` (none)."""
    addresses = [f"10.0.0.{n + 1}:8000" for n in range(replicas)]
    phi = Cluster("phi-3", ("phi-3",), endpoints=tuple(Endpoint(a) for a in addresses))
    qwen = Cluster("qwen", ("qwen2.5-72b",), lb=LbPolicy.WEIGHTED, endpoints=(Endpoint("10.0.1.1:8000"),))
    return Topology((phi, qwen, Cluster("empty", ("nobody",))), default_model)


def sample(address: str, *, cluster: str = "phi-3", at_ms: int = NOW, **fields: Any) -> EndpointSample:
    known: dict[str, Any] = {"status": Status.READY, "running": 0, "waiting": 0, **fields}
    return EndpointSample(cluster=cluster, address=address, node="n1", sampled_at_ms=at_ms, seq=1, **known)


@dataclass
class Picker:
    """Everything behind a session, on a clock that tests move."""

    topology: Topology = field(default_factory=topology)
    max_request_bytes: int = 1 << 25
    now_ms: int = NOW

    classes: Classes = field(default_factory=Classes)
    explain: bool = False

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.view = FleetView(self.topology, TTL_MS)
        self.tokens = TokenBook(self.view.names)
        self.metrics = ExtProcMetrics(self.registry, self.tokens)
        self.recent = RecentRequests()
        self.gates = Gates(self.view, lambda: self.now_ms)
        QueueMetrics(self.registry, self.gates)
        self.decider = Decider(
            Routes(self.topology, self.view.cluster_listing, self.tokens.ratio_of),
            self.view,
            self.tokens,
            self.metrics,
            max_request_bytes=self.max_request_bytes,
            clock=lambda: self.now_ms,
            recent=self.recent,
            gates=self.gates,
            classes=self.classes,
            explain=self.explain,
        )

    def sample(self, address: str, **fields: Any) -> None:
        self.view.sampled([sample(address, **{"at_ms": self.now_ms, **fields})], self.now_ms)

    def session(self) -> Session:
        return Session(self.decider.decide)

    def reply(self, body: bytes, **attributes: str) -> Reply:
        return self.session().handle(body_message(body, attributes))

    def answer(self, body: bytes, **attributes: str) -> Answer:
        return Answer.read(self.reply(body, **attributes))

    def ask(self, model: str = "phi-3") -> Answer:
        return self.answer(json.dumps({"model": model}).encode())


@dataclass
class Answer:
    """What a ProcessingResponse tells Envoy."""

    response: pb.ProcessingResponse
    metadata: dict[str, Any]

    @classmethod
    def read(cls, data: Reply) -> Answer:
        assert not isinstance(data, Later), "the request waits"
        response = pb.ProcessingResponse.FromString(data)
        return cls(response, MessageToDict(response.dynamic_metadata))

    @property
    def cluster(self) -> str:
        return str(self.metadata["tidegate"]["cluster"])

    @property
    def destinations(self) -> list[str]:
        text = self.metadata.get("envoy.lb", {}).get("x-gateway-destination-endpoint", "")
        return text.split(",") if text else []

    @property
    def status(self) -> int | None:
        """The HTTP status of an ImmediateResponse, None when the request goes on."""
        immediate = self.response.WhichOneof("response") == "immediate_response"
        return int(self.response.immediate_response.status.code) if immediate else None

    @property
    def headers(self) -> dict[str, str]:
        options = self.response.immediate_response.headers.set_headers
        return {option.header.key: option.header.raw_value.decode() for option in options}

    @property
    def error(self) -> dict[str, Any]:
        return dict(json.loads(self.response.immediate_response.body)["error"])


def body_message(body: bytes, attributes: dict[str, str] | None = None) -> bytes:
    """The one message of the BUFFERED chain, serialised."""
    message = pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=True))
    for name, value in (attributes or {}).items():
        message.attributes[FILTER][name] = value
    return message.SerializeToString()

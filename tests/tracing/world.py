"""A gateway that traces, as `tidegate up` runs it, and the requests whose traces the tests look at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.conftest import wait_until
from tests.tracing.collector import Collector, Received
from tests.up.cluster import Up, chat, start_up
from tidegate.domain.trace_context import read_traceparent

MODEL: Final = "phi-3"
CLIENT: Final = "00f067aa0ba902b7"
SAMPLED: Final = f"00-TRACE-{CLIENT}-01"
UNSAMPLED: Final = f"00-TRACE-{CLIENT}-00"
SECRETS: Final = {
    "authorization": "Bearer canary-authorization",
    "api-key": "canary-api-key",
    "x-api-key": "canary-x-api-key",
    "cookie": "session=canary-cookie",
}
PROMPT: Final = "canary-prompt"
USER: Final = "canary-user"
QUERY: Final = "canary-query"


def body_of(model: str = MODEL, **more: Any) -> dict[str, Any]:
    return chat(model, user=USER, **more) | {"messages": [{"role": "user", "content": PROMPT}]}


@dataclass
class Traced:
    """One running gateway. `sent` maps what a test asked for to the status that came."""

    up: Up
    collector: Collector
    sent: dict[str, int] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    asked: int = 0

    def ask(self, name: str, traceparent: str | None = None, *, body: Any = None, **headers: str) -> int:
        """One request that ext_proc decides; `TRACE` in its traceparent stands for a trace of its own.

        A busy machine may keep ext_proc from Envoy for a moment, which then does without: the request is sent again,
        as another trace.
        """
        for _ in range(20):
            before, self.asked = self._decided(), self.asked + 1
            self.traces[name], self.agents[name] = (
                f"4bf92f3577b34da6a3ce929d0e0e{self.asked:04x}",
                f"agent-{self.asked}",
            )
            self.sent[name] = self._send(name, traceparent, body, headers)
            if self._decided() > before:
                return self.sent[name]
        raise AssertionError("ext_proc decides nothing")

    def _decided(self) -> float:
        lines = httpx.get(self.up.ready["metrics"]["ext_proc"], timeout=60).text.splitlines()
        names = ("tidegate_ext_proc_decisions_total{", "tidegate_ext_proc_refusals_total{")
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))

    def _send(self, name: str, traceparent: str | None, body: Any, headers: dict[str, str]) -> int:
        named = {"user-agent": self.agents[name], **SECRETS, **headers}
        if traceparent is not None:
            named["traceparent"] = traceparent.replace("TRACE", self.traces[name])
        content = body if isinstance(body, bytes) else json.dumps(body or body_of()).encode()
        url = f"{self.up.gateway}/v1/chat/completions?key={QUERY}"
        named["content-type"] = "application/json"
        return httpx.post(url, content=content, headers=named, timeout=60).status_code

    def engine_saw(self, name: str) -> dict[str, str]:
        """The headers that the engine got of that request."""
        for engine in self.up.ready["engines"]:
            for one in httpx.get(f"{engine['url']}/sim/requests?last=256", timeout=60).json():
                headers = {key.lower(): value for key, value in dict(one["headers"]).items()}
                if headers.get("user-agent") == self.agents[name]:
                    return headers
        raise AssertionError(f"no engine got {name}")

    def trace_at_engine(self, name: str) -> str:
        found = read_traceparent(self.engine_saw(name)["traceparent"])
        assert found is not None
        return found.trace_hex

    def whole(self, name: str, spans: int, trace: str | None = None) -> dict[str, Received]:
        """The trace of a request, by the names of its spans, once it has so many."""
        trace = trace or self.traces[name]
        wait_until(lambda: len(self.collector.spans(trace=trace)) >= spans, what=f"{spans} spans of {trace}")
        return {span.name: span for span in self.collector.spans(trace=trace)}

    def line(self, event: str, name: str) -> dict[str, Any]:
        """The one line of ext_proc's log that tells of that request, once it is written."""
        found: list[dict[str, Any]] = []

        def written() -> bool:
            whole = [json.loads(line) for line in self.log("ext_proc").splitlines(keepends=True) if line[-1] == "\n"]
            wanted = (event, self.traces[name])
            found[:] = [one for one in whole if (one["event"], one.get("trace_id")) == wanted]
            return bool(found)

        wait_until(written, what=f"{event} in the log")
        (line,) = found
        return line

    def log(self, part: str) -> str:
        return Path(self.up.ready["config"]).with_name(f"{part}.log").read_text()

    def metric(self, part: str, line: str) -> float:
        page = httpx.get(self.up.ready["metrics"][part], timeout=60).text
        found = [one for one in page.splitlines() if one.startswith(line + " ")]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0


def start_traced(folder: Path, collector: Collector, transport: str, *arguments: str) -> Traced:
    env = {
        "TIDEGATE_EXT_PROC_TRANSPORT": transport,
        "TIDEGATE_EXT_PROC_LOG_DECISIONS": "1",
        "TIDEGATE_XDS_REQUEST_IDS": "1",
        "TIDEGATE_ENGINE_SIM_RECORD_REQUESTS": "1",
    }
    up = start_up(
        folder, "--replicas", "1", "--log-level", "debug", "--otlp-endpoint", collector.url, *arguments, env=env
    )
    return Traced(up, collector)

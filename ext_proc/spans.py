"""The spans of one sampled request: what ext_proc did with it, and when.

    tidegate.ext_proc ├─ tidegate.parse   body → what decides
                      ├─ tidegate.wait    at the door of its cluster, until a replica was looked for the last time
                      └─ tidegate.pick    that look, and the answer

The parent is Envoy's span of the ext_proc call. Attributes are those of the GenAI semantic conventions where they have
one, else `tidegate.…`. Nothing of a prompt, a user, a session or a key is ever among them.
"""

from __future__ import annotations

from time import perf_counter_ns, time_ns
from typing import Final

from ext_proc.flow.arrival import Arrival, Placed
from ext_proc.route import Routed
from tidegate.domain.pick.verdict import Scored
from tidegate.domain.refusal import SHAPES, Refusal
from tidegate.domain.request import RequestInfo
from tidegate.domain.routing import Api
from tidegate.domain.topology import split_address
from tidegate.domain.trace_context import TraceContext
from tidegate.tracing import Kind, Span, Spans, Value, child_of

ROOT: Final = "tidegate.ext_proc"
PARSE: Final = "tidegate.parse"
WAIT: Final = "tidegate.wait"
PICK: Final = "tidegate.pick"

OPERATIONS: Final = {
    Api.CHAT: "chat",
    Api.RESPONSES: "chat",
    Api.MESSAGES: "chat",
    Api.COMPLETIONS: "text_completion",
    Api.EMBEDDINGS: "embeddings",
    Api.IMAGES: "generate_content",
}
"""`gen_ai.operation.name` has no value for scores, tokenizers and sound."""
_LONGEST_MODEL: Final = 256


class RequestSpans:
    """Takes the times as they pass and records the spans when the request leaves, once. Belongs to the event loop."""

    __slots__ = ("_attributes", "_came", "_context", "_looked", "_origin", "_parent", "_parsed", "_spans", "_waits")

    def __init__(self, spans: Spans, parent: TraceContext) -> None:
        self._spans: Spans | None = spans
        self._parent, self._context = parent, child_of(parent)
        self._came = perf_counter_ns()
        self._origin = time_ns() - self._came
        self._parsed = self._waits = self._looked = 0
        self._attributes: dict[str, Value] = {}

    @property
    def trace_id(self) -> str:
        """32 hex digits, for logs and exemplars."""
        return self._context.trace_hex

    def parsed(self, info: RequestInfo) -> None:
        """The body is read."""
        self._parsed = perf_counter_ns()
        said: dict[str, Value | None] = {
            "gen_ai.operation.name": OPERATIONS.get(info.api),
            "gen_ai.request.model": info.model[:_LONGEST_MODEL] if info.model else None,
            "gen_ai.request.max_tokens": info.max_output_tokens or None,  # 0: it asks for no tokens
            "gen_ai.request.stream": info.stream or None,
            "tidegate.api": str(info.api),
            "tidegate.sequences": info.num_sequences,
        }
        self._attributes.update({name: value for name, value in said.items() if value is not None})

    def admitted(self, there: Routed, arrival: Arrival) -> None:
        """It stands at the door of its cluster, and tells from there what happens to it."""
        arrival.trace_id, arrival.watch = self.trace_id, self
        self._waits = perf_counter_ns()
        self._attributes |= {
            "tidegate.cluster": there.cluster,
            "tidegate.class": arrival.class_name,
            "tidegate.priority": arrival.priority,
            "tidegate.estimated.prompt_tokens": arrival.work.prompt_tokens,
            "tidegate.estimated.output_tokens": arrival.work.output_tokens,
        }
        if there.version is not None:
            self._attributes["tidegate.version"] = there.version
        if there.write_model is not None:
            self._attributes["tidegate.sent_model"] = there.write_model

    def picking(self) -> None:
        """A replica is looked for; this may happen many times."""
        self._looked = perf_counter_ns()

    def placed(self, outcome: Placed) -> None:
        """It goes to its cluster."""
        pick = outcome.pick
        self._attributes["tidegate.reason"] = str(pick.verdict)
        picked: dict[str, Value] = {"tidegate.pick.verdict": str(pick.verdict)}
        for place, scored in zip(("chosen", "runner_up"), pick.chosen, strict=False):
            picked |= _score(place, scored)
        if pick.chosen:
            self._attributes |= _server(pick.chosen[0].address)
        self._record(picked, waited_ms=outcome.waited_ms)

    def refused(self, refusal: Refusal) -> None:
        """Its client is answered in the engine's place."""
        reason = str(refusal.reason)
        self._attributes |= {"tidegate.reason": reason, "http.response.status_code": SHAPES[refusal.reason].status}
        self._record(None, error=reason)

    def gone(self) -> None:
        """Its client hung up before there was an answer."""
        self._record(None, error="gone")

    def crashed(self, exc: BaseException) -> None:
        """A fault of ours; what the exception says is not told."""
        self._record(None, error=type(exc).__name__)

    def _record(self, picked: dict[str, Value] | None, *, error: str | None = None, waited_ms: int = 0) -> None:
        spans, self._spans = self._spans, None
        if spans is None:
            return
        now = perf_counter_ns()
        root = self._span(ROOT, self._came, now, self._attributes, error)
        root.kind, root.context, root.parent = Kind.SERVER, self._context, self._parent
        children = [self._span(PARSE, self._came, self._parsed or now, {}, None if self._parsed else error)]
        if self._waits:
            looked = self._looked if picked is not None and self._looked else now
            waited: dict[str, Value] = {"tidegate.waited_ms": waited_ms} if picked is not None else {}
            children.append(self._span(WAIT, self._waits, looked, waited, error))
            if picked is not None:
                children.append(self._span(PICK, looked, now, picked, error))
        for span in (root, *children):
            spans.record(span)

    def _span(self, name: str, start: int, end: int, attributes: dict[str, Value], error: str | None) -> Span:
        return Span(
            name=name,
            context=child_of(self._context),
            parent=self._context,
            start_ns=start + self._origin,
            end_ns=end + self._origin,
            attributes=attributes,
            error=error,
        )


def _server(address: str) -> dict[str, Value]:
    host, port = split_address(address)
    return {"server.address": host, "server.port": port}


def _score(place: str, scored: Scored) -> dict[str, Value]:
    """A replica, its cost and the terms of it in seconds."""
    prefix = f"tidegate.pick.{place}"
    parts = {f"{prefix}.{name}_seconds": seconds for name, seconds in scored.parts.items()}
    return {f"{prefix}.address": scored.address, f"{prefix}.cost_seconds": scored.cost, **parts}

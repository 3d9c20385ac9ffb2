"""One request: parse → cluster → class → door of the cluster → answer, at once or later."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from ext_proc.about import about, note
from ext_proc.buffered import Attributes
from ext_proc.flow.arrival import Arrival, Placed
from ext_proc.flow.explain import explanation, fields
from ext_proc.flow.gates import Gates
from ext_proc.flow.holds import Holds
from ext_proc.flow.later import Reply
from ext_proc.flow.sample_log import DecisionLog
from ext_proc.flow.sorting import sort
from ext_proc.flow.weigh import FirstGuess, Outputs, cost_of, work_of
from ext_proc.metrics import ExtProcMetrics
from ext_proc.mix import MixBook
from ext_proc.parse.request import parse_request
from ext_proc.recent import Read, RecentRequests
from ext_proc.responses import labels, refused, routed, written
from ext_proc.rewrite import under_model
from ext_proc.route import Routed, Routes
from ext_proc.spans import RequestSpans
from ext_proc.tokens import TokenBook
from ext_proc.view import FleetView
from tidegate.domain.flow.classes import Classes
from tidegate.domain.refusal import Refusal, dialect_of
from tidegate.domain.request import RequestInfo
from tidegate.domain.trace_context import TraceContext
from tidegate.domain.wire import (
    ADDRESS_ATTRIBUTE,
    CONTENT_ENCODING_ATTRIBUTE,
    CONTENT_TYPE_ATTRIBUTE,
    EXPLAIN_HEADER,
    PATH_ATTRIBUTE,
)
from tidegate.tracing import Spans


class Decider:
    """Decides requests on the current view.

    `clock` gives Unix milliseconds; `recent` keeps the last requests, if any; `outputs` knows how long answers are;
    `explain` allows clients to ask why; `decisions` logs some of them; `mix` counts the classes of what went where;
    `spans` takes those of sampled requests; `holds` are requests that acts hold.
    """

    def __init__(
        self,
        routes: Routes,
        fleet: FleetView,
        tokens: TokenBook,
        metrics: ExtProcMetrics,
        *,
        max_request_bytes: int,
        clock: Callable[[], int],
        recent: RecentRequests | None = None,
        gates: Gates | None = None,
        classes: Classes | None = None,
        outputs: Outputs | None = None,
        explain: bool = False,
        decisions: DecisionLog | None = None,
        mix: MixBook | None = None,
        spans: Spans | None = None,
        holds: Holds | None = None,
    ) -> None:
        self._routes, self._tokens, self._metrics = routes, tokens, metrics
        self._max_request_bytes, self._recent, self._log = max_request_bytes, recent, decisions
        self._gates, self._mix = gates or Gates(fleet, clock), mix
        self._holds = holds or Holds((), clock)
        self._classes, self._outputs, self._explain = classes or Classes(), outputs or FirstGuess(), explain
        self._spans = spans

    def decide(self, body: bytes, attributes: Attributes, trace: TraceContext | None = None) -> Reply:
        """A serialised ProcessingResponse: where the request goes, or what its client is answered; perhaps later.

        `trace` is Envoy's span of this call, where it is sampled.
        """
        started = perf_counter()
        spans = None if trace is None or self._spans is None else RequestSpans(self._spans, trace)
        path = attributes.get(PATH_ATTRIBUTE) or "/"
        try:
            reply = self._reply(body, path, attributes, spans)
        except Exception as exc:
            _crashed(exc, attributes, spans)
            raise
        self._metrics.took(perf_counter() - started, None if spans is None else spans.trace_id)
        return reply

    def _reply(self, body: bytes, path: str, attributes: Attributes, spans: RequestSpans | None) -> Reply:
        read: Read | None = None
        try:
            info = self._parse(body, path, attributes, spans)
            if self._recent is not None:
                read = self._recent.read(path, info)
            there = self._routes.route(info, attributes.header, attributes.get(ADDRESS_ATTRIBUTE))
            new_body = self._renamed(body, there, attributes)
        except Refusal as refusal:
            return self.refuse(refusal, path, read, attributes, spans)
        asks = self._explain and attributes.header(EXPLAIN_HEADER) == "1"
        model = self._routes.model_of(info, there)
        answer = _Answer(self, info, there, model, path, attributes, new_body, asks, read, spans)
        arrival = self._arrival(info, there, len(body), attributes, answer)
        answer.class_name = arrival.class_name
        if spans is not None:
            spans.admitted(there, arrival)
        held = self._holds.refusal(there.cluster, model, arrival.class_name, arrival.priority)
        if held is not None:
            return answer(held)
        return self._gates.of(there.cluster).admit(arrival)

    def _parse(self, body: bytes, path: str, attributes: Attributes, spans: RequestSpans | None) -> RequestInfo:
        info = parse_request(
            body,
            path=path,
            content_type=attributes.get(CONTENT_TYPE_ATTRIBUTE),
            content_encoding=attributes.get(CONTENT_ENCODING_ATTRIBUTE),
            max_bytes=self._max_request_bytes,
        )
        if spans is not None:
            spans.parsed(info)
        return info

    def _renamed(self, body: bytes, there: Routed, attributes: Attributes) -> bytes | None:
        """The body under the name that it needs; None when it stays as it is."""
        if there.write_model is None:
            return None
        content_type = attributes.get(CONTENT_TYPE_ATTRIBUTE)
        encoding = attributes.get(CONTENT_ENCODING_ATTRIBUTE)
        return under_model(body, there.write_model, content_type, encoding, self._max_request_bytes)

    def _arrival(
        self,
        info: RequestInfo,
        there: Routed,
        size_bytes: int,
        attributes: Attributes,
        answer: Callable[[Placed | Refusal], bytes],
    ) -> Arrival:
        ratio, key = self._tokens.ratio_of(there.cluster), self._gates.of(there.cluster).settings.session
        work = work_of(info, ratio, self._outputs.expected(there.cluster, info), there.adapter, key)
        queues = sort(self._classes, info, work.prompt_tokens, attributes.header)
        return Arrival(
            priority=queues.priority,
            class_name=queues.group.name,
            user=queues.user,
            weight=queues.group.weight,
            cost=cost_of(work),
            size_bytes=size_bytes,
            work=work,
            answer=answer,
        )

    def refuse(
        self, refusal: Refusal, path: str, read: Read | None, attributes: Attributes, spans: RequestSpans | None
    ) -> bytes:
        """What the client of a refused request is answered; the refusal is counted and told."""
        self._metrics.refused(refusal.reason)
        if spans is not None:
            spans.refused(refusal)
        if self._log is not None and self._log.due():
            self._log.say("refused", reason=str(refusal.reason), **about(attributes, spans))
        if self._recent is not None:
            self._recent.refused(path, refusal, read)
        return refused(refusal, dialect_of(path))

    def went(
        self, info: RequestInfo, there: Routed, outcome: Placed, destinations: tuple[str, ...], read: Read | None
    ) -> None:
        """Count a request that goes to its cluster."""
        self._metrics.decided(there.cluster, "pick" if destinations else "weights")
        self._tokens.dispatched(there.cluster, info)
        self._outputs.dispatched(there.cluster, info)
        if self._mix is not None and outcome.pick.chosen:
            self._mix.dispatched(there.cluster, outcome.pick.chosen[0].address, info)
        if self._recent is not None:
            self._recent.sent(there.cluster, there.write_model, destinations, read)

    def tell(self, there: Routed, outcome: Placed, attributes: Attributes, spans: RequestSpans | None) -> None:
        """Say where a request goes, where somebody listens."""
        if spans is not None:
            spans.placed(outcome)
        if self._log is not None and self._log.due():
            scores = fields(outcome.pick, outcome.waited_ms)
            self._log.say("picked", cluster=there.cluster, **scores, **about(attributes, spans))


class _Answer:
    """Writes what becomes of one request, once. Nothing that it holds refers to it: it goes with its arrival."""

    __slots__ = (
        "_asks",
        "_attributes",
        "_body",
        "_decider",
        "_info",
        "_model",
        "_path",
        "_read",
        "_spans",
        "_there",
        "class_name",
    )

    def __init__(
        self,
        decider: Decider,
        info: RequestInfo,
        there: Routed,
        model: str,
        path: str,
        attributes: Attributes,
        body: bytes | None,
        asks: bool,
        read: Read | None,
        spans: RequestSpans | None,
    ) -> None:
        """`body` replaces the request's; `asks`: its client wants to know why it went where it goes."""
        self._decider, self._info, self._there, self._model, self._path = decider, info, there, model, path
        self._attributes, self._body, self._asks, self._read, self._spans = attributes, body, asks, read, spans
        self.class_name = ""

    def __call__(self, outcome: Placed | Refusal) -> bytes:
        try:
            return self._written(outcome) + labels(self._model, self.class_name)
        except Exception as exc:
            _crashed(exc, self._attributes, self._spans)
            raise

    def _written(self, outcome: Placed | Refusal) -> bytes:
        decider, there = self._decider, self._there
        if isinstance(outcome, Refusal):
            return decider.refuse(outcome, self._path, self._read, self._attributes, self._spans)
        destinations = tuple(one.destination for one in outcome.pick.chosen)
        decider.went(self._info, there, outcome, destinations, self._read)
        decider.tell(there, outcome, self._attributes, self._spans)
        if self._body is None and not self._asks:
            return routed(there.cluster, destinations, there.shadowed)
        why = explanation(outcome.pick, outcome.waited_ms) if self._asks else None
        return written(there.cluster, destinations, there.shadowed, body=self._body, explanation=why)


def _crashed(exc: Exception, attributes: Attributes, spans: RequestSpans | None) -> None:
    note(exc, attributes, spans)
    if spans is not None:
        spans.crashed(exc)

"""Spans of requests as vLLM writes them with `--otlp-traces-endpoint`: one `llm_request` for each, with its usage.

Source: `OutputProcessor.do_tracing` and `SpanAttributes` of vLLM. Latencies are seconds of the engine's own clock; the
span's begin and end are real.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from contextvars import ContextVar
from random import getrandbits
from time import time_ns
from typing import Final

from aiohttp import web

from simulator.engine import Sequence
from tidegate.domain.trace_context import TRACEPARENT_HEADER, TraceContext, read_traceparent
from tidegate.tracing import Kind, Span, Spans, Value, child_of

TRACED_AS: Final = "vllm"
SPAN: Final = "llm_request"

_parent: ContextVar[TraceContext | None] = ContextVar("parent", default=None)


def remember_parent(request: web.Request) -> None:
    """What this task generates belongs to the request's trace, if it has one."""
    _parent.set(read_traceparent(request.headers.get(TRACEPARENT_HEADER, "")))


class RequestTraces:
    """Records requests of one engine that end."""

    def __init__(self, spans: Spans, model: str) -> None:
        self._spans, self._model = spans, model

    def answered(
        self, sequences: SequenceOf[Sequence], began_ns: int, prompt_tokens: int, max_tokens: int, n: int
    ) -> None:
        """A request of the present task ended, all its sequences with it. Without a trace it begins one."""
        parent = _parent.get()
        if parent is not None and not parent.sampled:
            return
        context = child_of(parent) if parent is not None else TraceContext(getrandbits(128) or 1, getrandbits(64) or 1)
        usage: dict[str, Value] = {
            "gen_ai.response.model": self._model,
            "gen_ai.request.id": f"sim-{context.span_id:016x}",
            "gen_ai.request.max_tokens": max_tokens,
            "gen_ai.request.n": n,
            "gen_ai.usage.prompt_tokens": prompt_tokens,
            "gen_ai.usage.completion_tokens": sum(sequence.generated for sequence in sequences),
        }
        self._spans.record(
            Span(
                name=SPAN,
                context=context,
                parent=parent,
                start_ns=began_ns,
                end_ns=max(began_ns, time_ns()),
                kind=Kind.SERVER,
                attributes=usage | _latencies(sequences[0]),
            )
        )


def _latencies(sequence: Sequence) -> dict[str, Value]:
    """Of the first sequence, as far as it came."""
    times = (sequence.arrived_at, sequence.scheduled_at, sequence.first_token_at, sequence.finished_at)
    arrived, scheduled, first, finished = times
    spans = {
        "time_in_queue": (arrived, scheduled),
        "time_to_first_token": (arrived, first),
        "time_in_model_prefill": (scheduled, first),
        "time_in_model_decode": (first, finished),
        "time_in_model_inference": (scheduled, finished),
        "e2e": (arrived, finished),
    }
    return {
        f"gen_ai.latency.{name}": end - begin
        for name, (begin, end) in spans.items()
        if begin is not None and end is not None
    }

"""The queue between those who record spans and the thread that exports them: the SDK's batch processor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Sequence
from typing import Final

import grpc
import structlog
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from prometheus_client import CollectorRegistry, Counter

from tidegate.domain.trace_context import TraceContext
from tidegate.otlp.encoding import encoded
from tidegate.otlp.sending import Send, sender
from tidegate.settings.otlp_url import OtlpUrl
from tidegate.tracing import Kind, Span

log = structlog.get_logger("tidegate.otlp")

SCOPE: Final = "tidegate"
BATCH_MILLISECONDS: Final = 1000.0
"""Between two exports, unless OTEL_BSP_SCHEDULE_DELAY says otherwise: small batches hold the interpreter briefly."""
STOP_SECONDS: Final = 2.0
"""For the last export."""
_KINDS: Final = {Kind.SERVER: SpanKind.SERVER, Kind.INTERNAL: SpanKind.INTERNAL}
_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)


class OtlpSpans:
    """Records spans of one service. Any thread may call `record`."""

    def __init__(self, url: OtlpUrl, protocol: str, service: str, instance: str, registry: CollectorRegistry) -> None:
        """Raises OSError or ValueError when a variable of the environment makes no sense."""
        _silence_sdk()
        counts = Counter(
            "tidegate_trace_spans",
            "Spans recorded; those of them that a collector took, or did not",
            ["outcome"],
            registry=registry,
        )
        self._recorded = counts.labels("recorded")
        resource = {"service.instance.id": instance}
        if "OTEL_SERVICE_NAME" not in os.environ:
            resource["service.name"] = service
        self._resource = Resource.create(resource)
        self._scope = InstrumentationScope(SCOPE)
        exporter = CountingExporter(sender(url, protocol), url, counts)
        delay = None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else BATCH_MILLISECONDS
        self._queue = BatchSpanProcessor(exporter, schedule_delay_millis=delay)

    def record(self, span: Span) -> None:
        """Take a span. When the queue is full it is dropped: more are recorded then than are exported or failed."""
        self._recorded.inc()
        error = span.error is not None
        self._queue.on_end(
            ReadableSpan(
                name=span.name,
                context=_context(span.context),
                parent=None if span.parent is None else _context(span.parent),
                resource=self._resource,
                attributes={**span.attributes, "error.type": span.error} if error else span.attributes,
                kind=_KINDS[span.kind],
                status=_ERROR if error else _UNSET,
                start_time=span.start_ns,
                end_time=span.end_ns,
                instrumentation_scope=self._scope,
            )
        )

    async def stop(self) -> None:
        """Export what is there. A collector that does not answer is waited for STOP_SECONDS."""
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()

        def stop() -> None:
            self._queue.shutdown()  # type: ignore[no-untyped-call]
            with contextlib.suppress(RuntimeError):  # the loop may be over by then
                loop.call_soon_threadsafe(stopped.set)

        # A thread that the interpreter does not wait for: the SDK's own patience is 30 s.
        threading.Thread(target=stop, name="otlp stop", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), STOP_SECONDS)


def _context(context: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(context.trace_id, context.span_id, is_remote=False, trace_flags=flags)


class CountingExporter(SpanExporter):
    """Sends each batch once. What is not taken is lost and counted; the log hears of the first failure, and of its end.

    The exporting thread alone calls `export`.
    """

    def __init__(self, send: Send, url: OtlpUrl, counts: Counter) -> None:
        self._send, self._endpoint = send, url.address
        self._exported, self._failed = counts.labels("exported"), counts.labels("failed")
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them. Raises nothing."""
        try:
            self._send(encoded(spans, SCOPE))
        except Exception as exc:  # noqa: BLE001 - whatever it is, requests must not feel it
            return self._lost(len(spans), exc)
        self._exported.inc(len(spans))
        if self._failing:
            self._failing = False
            log.info("spans are exported again", endpoint=self._endpoint)
        return SpanExportResult.SUCCESS

    def _lost(self, spans: int, exc: Exception) -> SpanExportResult:
        self._failed.inc(spans)
        if not self._failing:
            self._failing = True
            log.warning("spans are not exported; further failures are counted alone", **_why(exc, self._endpoint))
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Nothing is held."""


def _why(exc: Exception, endpoint: str) -> dict[str, str]:
    detail = exc.code().name if isinstance(exc, grpc.Call) else str(exc)
    return {"endpoint": endpoint, "error": f"{type(exc).__name__}: {detail}"}


def _silence_sdk() -> None:
    """The SDK says by `logging` what is counted here, once for each span that finds its queue full."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

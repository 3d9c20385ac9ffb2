"""One request: parse → cluster → replica → answer."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from ext_proc.metrics import ExtProcMetrics
from ext_proc.parse.request import parse_request
from ext_proc.recent import RecentRequests
from ext_proc.responses import refused, rewritten, routed
from ext_proc.rewrite import under_model
from ext_proc.route import Routed, Routes
from ext_proc.session import Attributes
from ext_proc.tokens import TokenBook
from ext_proc.view import FleetView
from tidegate.domain.refusal import Refusal, dialect_of
from tidegate.domain.request import RequestInfo
from tidegate.domain.wire import CONTENT_ENCODING_ATTRIBUTE, CONTENT_TYPE_ATTRIBUTE, PATH_ATTRIBUTE


class Decider:
    """Decides requests on the current view. `clock` gives Unix milliseconds; `recent` keeps the last ones, if any."""

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
    ) -> None:
        self._routes, self._fleet, self._tokens, self._metrics = routes, fleet, tokens, metrics
        self._max_request_bytes, self._clock, self._recent = max_request_bytes, clock, recent

    def decide(self, body: bytes, attributes: Attributes) -> bytes:
        """A serialised ProcessingResponse: where the request goes, or what its client is answered."""
        started = perf_counter()
        path = attributes.get(PATH_ATTRIBUTE) or "/"
        try:
            response = self._route(body, path, attributes)
        except Refusal as refusal:
            self._metrics.refused(refusal.reason)
            if self._recent is not None:
                self._recent.refused(path, refusal)
            response = refused(refusal, dialect_of(path))
        self._metrics.took(perf_counter() - started)
        return response

    def _route(self, body: bytes, path: str, attributes: Attributes) -> bytes:
        content_type = attributes.get(CONTENT_TYPE_ATTRIBUTE)
        encoding = attributes.get(CONTENT_ENCODING_ATTRIBUTE)
        info = parse_request(
            body,
            path=path,
            content_type=content_type,
            content_encoding=encoding,
            max_bytes=self._max_request_bytes,
        )
        if self._recent is not None:
            self._recent.read(path, info)
        there = self._routes.route(info, attributes.header)
        destinations = self._fleet.cluster(there.cluster).destinations(self._clock(), there.adapter)
        if there.write_model is None:
            response = routed(there.cluster, destinations)
        else:
            body = under_model(body, there.write_model, content_type, encoding, self._max_request_bytes)
            response = rewritten(there.cluster, destinations, body)
        self._went(info, there, destinations)
        return response

    def _went(self, info: RequestInfo, there: Routed, destinations: tuple[str, ...]) -> None:
        self._metrics.decided(there.cluster, "pick" if destinations else "weights")
        self._tokens.dispatched(there.cluster, info)
        if self._recent is not None:
            self._recent.sent(there.cluster, there.write_model, destinations)

"""One request: parse → cluster → replica → answer."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from ext_proc.metrics import ExtProcMetrics
from ext_proc.parse.body import parse_body
from ext_proc.responses import refused, routed
from ext_proc.route import ModelRoutes
from ext_proc.session import Attributes
from ext_proc.view import FleetView
from tidegate.domain.refusal import Reason, Refusal
from tidegate.domain.wire import CONTENT_ENCODING_ATTRIBUTE


class Decider:
    """Decides requests on the current view. `clock` gives Unix milliseconds."""

    def __init__(
        self,
        routes: ModelRoutes,
        fleet: FleetView,
        metrics: ExtProcMetrics,
        *,
        max_request_bytes: int,
        clock: Callable[[], int],
    ) -> None:
        self._routes, self._fleet, self._metrics = routes, fleet, metrics
        self._max_request_bytes, self._clock = max_request_bytes, clock

    def decide(self, body: bytes, attributes: Attributes) -> bytes:
        """A serialised ProcessingResponse: where the request goes, or what its client is answered."""
        started = perf_counter()
        try:
            response = self._route(body, attributes)
        except Refusal as refusal:
            self._metrics.refused(refusal.reason)
            response = refused(refusal)
        self._metrics.took(perf_counter() - started)
        return response

    def _route(self, body: bytes, attributes: Attributes) -> bytes:
        self._check_readable(body, attributes)
        cluster = self._routes.cluster_of(parse_body(body).model).name
        destinations = self._fleet.cluster(cluster).destinations(self._clock())
        self._metrics.decided(cluster, "pick" if destinations else "weights")
        return routed(cluster, destinations)

    def _check_readable(self, body: bytes, attributes: Attributes) -> None:
        if len(body) > self._max_request_bytes:
            message = f"The body has {len(body)} bytes; at most {self._max_request_bytes} are accepted."
            raise Refusal(Reason.BODY_TOO_LARGE, message)
        encoding = attributes.get(CONTENT_ENCODING_ATTRIBUTE)
        if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
            message = "The content-encoding of the body is not supported; send it unencoded."
            raise Refusal(Reason.UNSUPPORTED_ENCODING, message)

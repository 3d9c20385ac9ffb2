"""What became of requests to the hooks."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter


class Result(StrEnum):
    """How a request ended.

    ACCEPTED  all of it was taken in        PARTLY        some of it; the rest was refused
    GARBAGE   400                           UNAUTHORIZED  401: the token is wrong or missing
    UNKNOWN   404: no rule                  LABELS        422: one is missing or does not match
    TARGET    422: a label names nothing    SIZE          413
    RATE      429                           STORE         503: Redis does not answer, or its inbox is full
    SLOW      408: the body did not come    PATH          404: there is no such hook
    """

    ACCEPTED = "accepted"
    PARTLY = "partly"
    GARBAGE = "garbage"
    UNAUTHORIZED = "unauthorized"
    UNKNOWN = "unknown"
    LABELS = "labels"
    TARGET = "target"
    SIZE = "size"
    RATE = "rate"
    STORE = "store"
    SLOW = "slow"
    PATH = "path"


STATUS = {
    Result.ACCEPTED: 200,
    Result.PARTLY: 200,
    Result.GARBAGE: 400,
    Result.UNAUTHORIZED: 401,
    Result.UNKNOWN: 404,
    Result.LABELS: 422,
    Result.TARGET: 422,
    Result.SIZE: 413,
    Result.RATE: 429,
    Result.STORE: 503,
    Result.SLOW: 408,
    Result.PATH: 404,
}


class HookInstruments:
    """Registered when made; `close()` takes it off the registry again."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.requests = Counter(
            "tidegate_hooks_requests_total",
            "Requests to the hooks of alerts and annotations, by how they ended",
            ["hook", "result"],
            registry=registry,
        )

    def close(self) -> None:
        """Unregister."""
        self._registry.unregister(self.requests)

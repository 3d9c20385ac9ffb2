"""The health of ext_proc: that of its one service."""

from __future__ import annotations

from typing import Final

from tidegate import grpc_health

EXTERNAL_PROCESSOR: Final = "envoy.service.ext_proc.v3.ExternalProcessor"


class Health(grpc_health.Health):
    """Serving until it is told to drain."""

    def __init__(self) -> None:
        super().__init__(EXTERNAL_PROCESSOR)

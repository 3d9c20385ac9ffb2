"""Desired states for tests that need no network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.domain.topology import LbPolicy
from xds_server.desired import Desired, DesiredCluster, DesiredEndpoint


def endpoint(number: int, weight: int | None = None, **more: Any) -> DesiredEndpoint:
    return DesiredEndpoint(address=f"10.0.0.{number}:8000", ip=f"10.0.0.{number}", port=8000, weight=weight, **more)


CHAT = DesiredCluster(
    name="chat", models=("phi-3", "org/phi-3-mini"), lb=LbPolicy.PICK, endpoints=(endpoint(1, 100), endpoint(2, 900))
)
IMAGES = DesiredCluster(
    name="images", models=("sdxl",), lb=LbPolicy.WEIGHTED, endpoints=(endpoint(3), endpoint(4, 200), endpoint(5, 400))
)
DESIRED = Desired(
    listen_host="0.0.0.0",
    listen_port=10000,
    max_request_bytes=1000,
    expose_routing=True,
    ext_proc_host="ext-proc",
    ext_proc_port=18001,
    clusters=(CHAT, IMAGES),
)


def with_endpoints(*endpoints: DesiredEndpoint, lb: LbPolicy = LbPolicy.WEIGHTED) -> Desired:
    """One cluster `chat` of these endpoints."""
    return replace(DESIRED, clusters=(replace(CHAT, endpoints=endpoints, lb=lb),))

"""The two protocols, side by side: what differs between a state-of-the-world stream and a delta stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from envoy.service.discovery.v3 import discovery_pb2

from xds_server import wire
from xds_server.subscription.delta import DeltaSubscription
from xds_server.subscription.sotw import SotwSubscription
from xds_server.subscription.verdicts import Response, Subscription


@dataclass(frozen=True, slots=True)
class Protocol:
    """How requests are read, subscriptions kept and responses written."""

    name: str
    parse: Callable[[bytes], Any]
    subscription: Callable[[str], Subscription]
    encode: Callable[[Response], bytes]


def _sotw_bytes(response: Response) -> bytes:
    parts = [part for r in response.resources for part in (r.head, r.packed)]
    return wire.response_bytes(response.version_info, parts, response.type_url, response.nonce)


def _delta_bytes(response: Response) -> bytes:
    parts = [part for r in response.resources for part in (r.delta_head, r.packed)]
    removed = response.removed_resources
    return wire.response_bytes(response.version_info, parts, response.type_url, response.nonce, removed)


SOTW: Final = Protocol("sotw", discovery_pb2.DiscoveryRequest.FromString, SotwSubscription, _sotw_bytes)
DELTA: Final = Protocol("delta", discovery_pb2.DeltaDiscoveryRequest.FromString, DeltaSubscription, _delta_bytes)

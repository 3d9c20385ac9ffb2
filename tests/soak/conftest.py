"""The gateway of the xDS tests, here for longer."""

from __future__ import annotations

from tests.xds.conftest import engines, gateway

__all__ = ["engines", "gateway"]

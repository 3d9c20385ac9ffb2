"""Prometheus as tests ask it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Prometheus:
    """A running one, at `url`."""

    url: str

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series of an expression, now. A query that Prometheus refuses is a failure."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expr}, timeout=10).json()
        assert answer["status"] == "success", f"{expr}: {answer['error']}"
        return answer["data"]["result"]

    def alerts(self) -> list[dict[str, Any]]:
        """Pending and firing ones."""
        return httpx.get(f"{self.url}/api/v1/alerts", timeout=10).json()["data"]["alerts"]

"""Prometheus as tests ask it."""

from __future__ import annotations

from typing import Any, Self

import httpx


class Prometheus:
    """A running one, at `url`."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series of an expression, now. A query that Prometheus refuses is a failure."""
        answer = self._client.get("/api/v1/query", params={"query": expr}).json()
        assert answer["status"] == "success", f"{expr}: {answer['error']}"
        return answer["data"]["result"]

    def shows(self, expr: str) -> bool:
        """Whether a panel would show something: one series at least, and not of what cannot be told."""
        return any(one["value"][1] != "NaN" for one in self.query(expr))

    def alerts(self) -> list[dict[str, Any]]:
        """Pending and firing ones."""
        return self._client.get("/api/v1/alerts").json()["data"]["alerts"]

"""The table of request bodies as values; README.md explains its format."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """One request and what is expected of reading it."""

    id: str
    why: str
    path: str
    expect: dict[str, Any]
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    body: Any = None
    raw: str | None = None
    b64: str | None = None
    fill: dict[str, Any] | None = None
    encode: str | None = None
    transfer: dict[str, Any] | None = None

    def header(self, name: str) -> str | None:
        return {key.lower(): value for key, value in self.headers.items()}.get(name)

    def content(self, limit_bytes: int) -> bytes:
        """The bytes to send, where the gateway's limit is `limit_bytes`."""
        if self.b64 is not None:
            return base64.b64decode(self.b64)
        if self.raw is None:
            return (
                b"" if self.body is None else json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode()
            )
        plain = self.raw.replace("@@", self._filling(limit_bytes), 1).encode("latin-1")
        return gzip.compress(plain, 6, mtime=0) if self.encode == "gzip" else plain

    def _filling(self, limit_bytes: int) -> str:
        if self.fill is None:
            return ""
        times = limit_bytes + 1 if self.fill["times"] == "LIMIT+1" else self.fill["times"]
        of, join = str(self.fill["of"]), str(self.fill.get("join", ""))
        text = (of + join) * (times - 1) + of if times else ""
        return text + self.fill.get("close", "") * times


def cases() -> list[Case]:
    """All of them, in order."""
    lines = Path(__file__).with_name("bodies.jsonl").read_text(encoding="utf-8").splitlines()
    return [Case(**json.loads(line)) for line in lines]

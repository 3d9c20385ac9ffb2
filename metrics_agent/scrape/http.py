"""Fetches an engine's pages over one keep-alive connection: the only module that scrapes by aiohttp."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp

from metrics_agent.scrape.life import Failure

LARGEST_PAGE_BYTES: Final = 8 * 1024 * 1024
KEEPALIVE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Page:
    """An answer, read in full."""

    status: int
    body: bytes


class ScrapeFailedError(Exception):
    """No answer, or none that can be used; `why` says which."""

    def __init__(self, why: Failure) -> None:
        super().__init__(why.value)
        self.why = why


class PageSource(Protocol):
    """Where a watcher gets pages from."""

    async def get(self, address: str, path: str) -> Page:
        """GET `http://address/path`. Raises ScrapeFailedError."""


class HttpPages:
    """Pages by HTTP, one connection an engine, each fetch limited by `timeout_seconds`. Use from one event loop."""

    def __init__(self, timeout_seconds: float, largest_bytes: int = LARGEST_PAGE_BYTES) -> None:
        self._largest_bytes = largest_bytes
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=1, keepalive_timeout=KEEPALIVE_SECONDS)
        self._client = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_seconds), trust_env=False
        )

    async def get(self, address: str, path: str) -> Page:
        """GET one page, at most `largest_bytes` long. Redirects are not followed. Raises ScrapeFailedError."""
        try:
            async with self._client.get(f"http://{address}{path}", allow_redirects=False) as response:
                return Page(response.status, await self._body(response))
        except TimeoutError as exc:
            raise ScrapeFailedError(Failure.TIMEOUT) from exc
        except aiohttp.ClientConnectorError as exc:
            refused = exc.os_error.errno == errno.ECONNREFUSED
            raise ScrapeFailedError(Failure.REFUSED if refused else Failure.BROKEN) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise ScrapeFailedError(Failure.BROKEN) from exc

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > self._largest_bytes:
                response.close()
                raise ScrapeFailedError(Failure.TOO_LARGE)
            chunks.append(chunk)
        return b"".join(chunks)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

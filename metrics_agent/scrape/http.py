"""Fetches an engine's pages over one keep-alive connection: the only module that scrapes by aiohttp."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from metrics_agent.scrape.life import Failure

LARGEST_PAGE_BYTES: Final = 2 * 1024 * 1024
KEEPALIVE_SECONDS: Final = 60.0
# Plain: compressing a page ten times a second would cost the engine more than the page.
HEADERS: Final = {"Accept": "text/plain;version=0.0.4, */*;q=0.5", "Accept-Encoding": "identity"}

TlsOf = Callable[[str], tuple[ssl.SSLContext, str] | None]


@dataclass(frozen=True, slots=True)
class Page:
    """An answer, read in full.

    `moved_to` is the path that a redirect names on the same server. `sized` says that the server told where the
    body ends; where it did not, a body that ends early looks whole.
    """

    status: int
    body: bytes
    moved_to: str | None = None
    sized: bool = True


class ScrapeFailedError(Exception):
    """No answer, or none that can be used; `why` says which."""

    def __init__(self, why: Failure) -> None:
        super().__init__(why.value)
        self.why = why


class PageSource(Protocol):
    """Where a watcher gets pages from."""

    async def get(self, address: str, path: str) -> Page:
        """GET the path of `address`, by http or by https as it serves. Raises ScrapeFailedError."""


class HttpPages:
    """Pages by HTTP, one connection an engine, each fetch limited by `timeout_seconds`. Use from one event loop.

    `tls_of` says of an address with what context, and for which name of its certificate, it is reached by https.
    """

    def __init__(
        self, timeout_seconds: float, largest_bytes: int = LARGEST_PAGE_BYTES, tls_of: TlsOf = lambda _: None
    ) -> None:
        self._largest_bytes, self._tls_of = largest_bytes, tls_of
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=1, keepalive_timeout=KEEPALIVE_SECONDS)
        self._client = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=timeout_seconds),
            headers=HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def get(self, address: str, path: str) -> Page:
        """GET one page, at most `largest_bytes` long unpacked. Follows no redirect. Raises ScrapeFailedError.

        The time limit covers everything from connecting to the last byte. A body shorter than announced is BROKEN.
        """
        try:
            async with self._request(address, path) as response:
                body = await self._body(response)
                return Page(response.status, body, _moved_to(response), _is_sized(response))
        except TimeoutError as exc:
            raise ScrapeFailedError(Failure.TIMEOUT) from exc
        except aiohttp.ClientConnectorError as exc:
            refused = exc.os_error.errno == errno.ECONNREFUSED
            raise ScrapeFailedError(Failure.REFUSED if refused else Failure.BROKEN) from exc
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as exc:
            raise ScrapeFailedError(Failure.BROKEN) from exc

    def _request(self, address: str, path: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if (tls := self._tls_of(address)) is None:
            return self._client.get(f"http://{address}{path}", allow_redirects=False)
        context, name = tls
        url = f"https://{address}{path}"
        return self._client.get(url, allow_redirects=False, ssl=context, server_hostname=name)

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


def _moved_to(response: aiohttp.ClientResponse) -> str | None:
    if response.status // 100 != 3:
        return None
    target = urlsplit(response.headers.get("Location", ""))
    same = not target.netloc or (target.scheme, target.netloc) == (response.url.scheme, response.url.raw_authority)
    return target.path if same and target.path.startswith("/") else None


def _is_sized(response: aiohttp.ClientResponse) -> bool:
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    return chunked or "Content-Length" in response.headers or response.status in {204, 304}

"""Connections of the hooks: bounded in number, none silent for long. They share a process, and its files, with xds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import structlog
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

MOST_CONNECTIONS: Final = 200
SILENT_SECONDS: Final = 60.0
"""After which a connection that sends nothing is cut, in the middle of a request or between two."""

log = structlog.get_logger("controller.hooks")


class Guarded(asyncio.Protocol):
    """Hands everything to `inner`. Where `open_` has all that may be there, the one that was silent longest makes room.

    `open_` has the connections in the order in which they were heard last.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        open_: dict[Guarded, None],
        most: int = MOST_CONNECTIONS,
        silent: float = SILENT_SECONDS,
    ) -> None:
        self._inner, self._open, self._most, self._silent = inner, open_, most, silent
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it."""
        self._transport = cast(asyncio.Transport, transport)
        if len(self._open) >= self._most:
            next(iter(self._open)).cut()
        self._inner.connection_made(transport)
        self._heard()

    def cut(self) -> None:
        """End the connection at once."""
        self._open.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended."""
        self._open.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """What came."""
        if self in self._open:
            self._heard()
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """No more will come."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Too much waits to be written."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It was written."""
        self._inner.resume_writing()

    def _heard(self) -> None:
        self._open.pop(self, None)
        self._open[self] = None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._silent, self.cut)


class HttpLog:
    """What aiohttp logs, in one line each: what is no HTTP is told by its kind alone, since it may hold a token.

    `refused` is called for each of those.
    """

    def __init__(self, refused: Callable[[], None]) -> None:
        self._refused = refused

    def exception(self, _message: str, *_args: object, exc_info: BaseException | None = None, **_more: Any) -> None:
        """A request that could not be read, or a defect."""
        if isinstance(exc_info, HttpProcessingError):
            why = f"it is no HTTP: {type(exc_info).__name__}"
            log.warning("a hook refused a request", hook="none", result="garbage", why=why)
            self._refused()
        elif not isinstance(exc_info, RequestPayloadError | ConnectionError):  # of those the hook has told
            log.error("a hook failed", exc_info=exc_info)

    def debug(self, message: str, *args: object, exc_info: BaseException | None = None, **more: Any) -> None:
        """Of these, what is no HTTP from the first byte is told as well."""
        if isinstance(exc_info, HttpProcessingError):
            self.exception(message, *args, exc_info=exc_info, **more)

    warning = error = info = debug

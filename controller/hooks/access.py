"""Who may call the hooks."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path

import structlog

from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import split_listen

SHORTEST = 16

log = structlog.get_logger("controller.hooks")


class TokenFile:
    """The token of a file that may be written anew while it is used. What is no token leaves the last one in force.

    Raises ConfigError as `token_of` does. `current` looks at the file's times each time it is asked, and never raises.
    """

    def __init__(self, listen: str, file: Path | None) -> None:
        self._listen, self._file = listen, file
        self._seen = _stat(file)
        self._token = token_of(listen, file)

    def current(self) -> str | None:
        """The token that callers have to know; None: none is needed."""
        seen = _stat(self._file)
        if seen != self._seen:
            self._seen = seen
            try:
                self._token = token_of(self._listen, self._file)
            except ConfigError as exc:
                log.error("the new token of the hooks is not taken; the last one stays", error=str(exc))  # noqa: TRY400
            else:
                log.info("the token of the hooks changed")
        return self._token


def _stat(file: Path | None) -> tuple[int, int, int] | None:
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def token_of(listen: str, file: Path | None) -> str | None:
    """The token that callers have to know; None: whoever reaches the loopback may call.

    Raises ConfigError, which never shows the token: the file cannot be read or holds too little, or there is none and
    others than this machine can reach the address.
    """
    if file is None:
        if not _is_loopback(listen):
            raise ConfigError([f"--hooks-listen {listen} is reached by others; give --hooks-token-file"])
        return None
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is no text"
        raise ConfigError([f"--hooks-token-file {file} cannot be read: {why}"]) from exc
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable():
        raise ConfigError([f"--hooks-token-file {file}: a token has {SHORTEST} or more printable ASCII characters"])
    return token


def _is_loopback(listen: str) -> bool:
    host, _ = split_listen(listen)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_call(authorization: str | None, token: str | None) -> bool:
    """Whether the header `authorization` is `Bearer {token}`, compared in constant time."""
    if token is None:
        return True
    scheme, _, given = (authorization or "").partition(" ")
    sound = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
    return sound and scheme.lower() == "bearer"

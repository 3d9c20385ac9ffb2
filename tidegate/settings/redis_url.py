"""The address of Redis, in the forms that Tidegate accepts, and a way to say it without its password."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import ParseResult, parse_qs, unquote, urlparse

SENTINEL_SCHEME: Final = "redis+sentinel"
CLUSTER_SCHEME: Final = "redis+cluster"
SCHEMES: Final = ("redis", "rediss", "unix", SENTINEL_SCHEME, CLUSTER_SCHEME)
SENTINEL_PORT: Final = 26379
REDIS_PORT: Final = 6379


@dataclass(frozen=True, slots=True, repr=False)
class RedisUrl:
    """A Redis URL, taken apart.

        redis://[[user]:password@]host[:port][/db]          one server; rediss:// is TLS
        unix://[[user]:password@]/path.sock[?db=0]          one server
        redis+sentinel://[[user]:password@]host[:port],…/service[/db][?sentinel_password=…]
        redis+cluster://[[user]:password@]host[:port],…     database 0 only

    `hosts` is empty for a socket. `where` is the address alone, safe to print and to log.
    """

    scheme: str
    text: str
    hosts: tuple[tuple[str, int], ...]
    where: str
    username: str | None = None
    password: str | None = None
    service: str = ""
    db: int = 0
    sentinel_password: str | None = None

    def __repr__(self) -> str:
        return f"RedisUrl({self.scheme}://{self.where})"


def parse_redis_url(url: str) -> RedisUrl:
    """Take `url` apart. Raises ValueError with a sentence that does not repeat the password."""
    parsed = _parsed(url)
    if parsed.scheme == "unix":
        return _socket_url(url, parsed)
    hosts = _hosts(parsed)
    where = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)
    service, db = _service_and_db(parsed)
    return RedisUrl(
        scheme=parsed.scheme,
        text=url,
        hosts=hosts,
        where=where,
        username=_unquoted(parsed.username),
        password=_unquoted(parsed.password),
        service=service,
        db=db,
        sentinel_password=parse_qs(parsed.query).get("sentinel_password", [None])[0],
    )


def _parsed(url: str) -> ParseResult:
    try:
        parsed = urlparse(url)
    except ValueError:
        raise ValueError("the Redis URL is not a URL; write redis://host:6379/0") from None
    if parsed.scheme not in SCHEMES:
        accepted = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"the Redis URL has to begin with one of {accepted}")
    return parsed


def _socket_url(url: str, parsed: ParseResult) -> RedisUrl:
    if not parsed.path:
        raise ValueError("the Redis URL names no socket; write unix:///path/redis.sock")
    username, password = _unquoted(parsed.username), _unquoted(parsed.password)
    path = unquote(parsed.path)
    return RedisUrl(scheme="unix", text=url, hosts=(), where=path, username=username, password=password)


def _unquoted(part: str | None) -> str | None:
    return unquote(part) if part else None


def _hosts(parsed: ParseResult) -> tuple[tuple[str, int], ...]:
    many = parsed.scheme in {SENTINEL_SCHEME, CLUSTER_SCHEME}
    default = SENTINEL_PORT if parsed.scheme == SENTINEL_SCHEME else REDIS_PORT
    listed = parsed.netloc.rpartition("@")[2]
    hosts = tuple(_host(one, default) for one in (listed.split(",") if many else [listed]))
    if not all(host for host, _ in hosts):
        raise ValueError("the Redis URL names no host; write redis://host:6379/0")
    return hosts


def _host(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = text.partition(":")
    if not port:
        return host, default_port
    if not (port.isascii() and port.isdigit() and 0 <= int(port) <= 65535):
        raise ValueError("the port of the Redis URL is not a number from 0 to 65535")
    return host, int(port)


def _service_and_db(parsed: ParseResult) -> tuple[str, int]:
    parts = [unquote(part) for part in parsed.path.split("/") if part]
    service = ""
    if parsed.scheme == SENTINEL_SCHEME:
        if not parts:
            raise ValueError("the Redis URL names no service; write redis+sentinel://host:26379/service/0")
        service = parts.pop(0)
    if not parts:
        return service, 0
    if len(parts) > 1 or not (parts[0].isascii() and parts[0].isdigit()):
        raise ValueError("the database of the Redis URL is not a number; write redis://host:6379/0")
    db = int(parts[0])
    if db and parsed.scheme == CLUSTER_SCHEME:
        raise ValueError("a Redis Cluster has database 0 alone; leave the number out of the URL")
    return service, db

"""How a subcommand finds Redis and the configuration of the cluster it talks about."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from tidegate.cli.up import registry
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Topology
from tidegate.settings.config_file import load
from tidegate.settings.redis_url import parse_redis_url
from tidegate.store.ports import Store
from tidegate.store.redis import RedisStore

T = TypeVar("T")
DEFAULT_FILE = Path("tidegate.yaml")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="TIDEGATE_CONFIG", help="configuration file of the cluster"),
]
RedisOption = Annotated[
    str | None,
    typer.Option("--redis-url", "--redis", envvar="TIDEGATE_REDIS_URL", help="Redis URL; overrides the file's"),
]
PrefixOption = Annotated[
    str | None, typer.Option("--redis-prefix", envvar="TIDEGATE_REDIS_PREFIX", help="prefix of every key")
]


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster a subcommand talks about. `topology` is None when no file is at hand."""

    redis_url: str
    prefix: str
    topology: Topology | None

    @property
    def where(self) -> str:
        """The address of Redis, without a password."""
        return parse_redis_url(self.redis_url).where

    def open(self) -> Store:
        """A store on it."""
        return RedisStore(self.redis_url, self.prefix)

    def ask(self, question: Callable[[Store], Awaitable[T]]) -> T:
        """Run one coroutine on the store and close it. Raises StoreError."""

        async def go() -> T:
            store = self.open()
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(go())


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--config`, `--redis-url` and `--redis-prefix`; it gets what they mean as its first argument.

    The rest of its arguments become typer's, as they are.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(command).parameters.values()][1:]
    where = {"config": ConfigOption, "redis_url": RedisOption, "redis_prefix": PrefixOption}

    def run(config: Path | None, redis_url: str | None, redis_prefix: str | None, **given: Any) -> None:
        command(find_target(config, redis_url, redis_prefix), **given)

    added = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=a) for n, a in where.items()]
    typed: Any = run
    typed.__name__, typed.__doc__ = command.__name__, command.__doc__
    typed.__signature__ = inspect.Signature([*own, *added], return_annotation=None)
    typed.__annotations__ = {p.name: p.annotation for p in [*own, *added]}
    return run


def find_target(config: Path | None, redis_url: str | None, prefix: str | None) -> Target:
    """Flags and environment first, then a `tidegate up` that runs (from this file), then the file.

    Raises ConfigError: nothing says where Redis is, or several local clusters run and none is named.
    """
    path = config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    local = None if redis_url else _the_local_cluster(path)
    if path is None and local is not None:
        path = Path(local["config"])
    file = load(path) if path is not None else None
    url = redis_url or (local["redis"] if local else None) or (file.redis_url if file else None)
    if url is None:
        raise ConfigError(["no local cluster runs; start `tidegate up`, or name one with --redis-url or --config"])
    return Target(url, prefix or (file.redis_prefix if file else "tidegate"), file.topology if file else None)


def _the_local_cluster(path: Path | None) -> dict[str, Any] | None:
    found = registry.running(path)
    if len(found) > 1:
        choices = [f"  --redis-url {c['redis']} (gateway {c['gateway']})" for c in found]
        raise ConfigError([f"{len(found)} local clusters run; name one:", *choices])
    return found[0] if found else None

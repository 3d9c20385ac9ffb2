"""Subcommands that write operators' keys. What they write, a bare `redis-cli HSET` writes as well."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.connection import ConfigOption, PrefixOption, RedisOption, Target, find_target
from tidegate.cli.report import gather
from tidegate.domain.errors import ConfigError
from tidegate.runtime import now_ms
from tidegate.store.ports import Store

Cluster = Annotated[str, typer.Argument(help="cluster name")]
Endpoint = Annotated[str, typer.Argument(help="host:port of the replica")]
Force = Annotated[bool, typer.Option("--force", help="write even when nobody knows that replica")]

NO_REASON = "drained by an operator"

weight_app = typer.Typer(no_args_is_help=True, help="Pin weights of replicas, and let go of them.")


def register(app: typer.Typer) -> None:
    """Add `weight`, `drain` and `undrain`."""
    app.add_typer(weight_app, name="weight")
    app.command()(drain)
    app.command()(undrain)


async def _clusters(store: Store, target: Target) -> dict[str, set[str]]:
    """Addresses by cluster, from the file, from xds and from what agents registered."""
    known: dict[str, set[str]] = {}
    for cluster in (await gather(store, target.topology, now_ms()))["clusters"]:
        known[cluster["name"]] = {e["address"] for e in cluster["endpoints"]}
    return known


async def _check(store: Store, target: Target, cluster: str, endpoint: str | None, *, force: bool = False) -> None:
    """Refuse what is most likely a slip of the pen. Raises ConfigError."""
    if force:
        return
    known = await _clusters(store, target)
    if cluster not in known:
        raise ConfigError([f"there is no cluster {cluster} (there are: {', '.join(sorted(known)) or 'none'})"])
    if endpoint is not None and endpoint not in known[cluster]:
        have = ", ".join(sorted(known[cluster])) or "none"
        raise ConfigError([f"{cluster} has no replica {endpoint} (it has: {have}); --force goes on all the same"])


@weight_app.command("set")
def weight_set(
    cluster: Cluster,
    endpoint: Endpoint,
    weight: Annotated[int, typer.Argument(min=0, max=1000, help="0 sends no new traffic; up to 1000")],
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
    force: Force = False,
) -> None:
    """Pin a replica's weight until it is cleared."""
    target = find_target(config, redis_url, redis_prefix)

    async def write(store: Store) -> None:
        await _check(store, target, cluster, endpoint, force=force)
        await store.set_field(f"weight:{cluster}", endpoint, str(weight))

    target.ask(write)
    print(f"{cluster} {endpoint}: weight pinned to {weight}")


@weight_app.command("clear")
def weight_clear(
    cluster: Cluster,
    endpoint: Annotated[str | None, typer.Argument(help="host:port; without it, every pin of the cluster")] = None,
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
    force: Force = False,
) -> None:
    """Return a replica, or all of a cluster, to automatic weights."""
    target = find_target(config, redis_url, redis_prefix)

    async def write(store: Store) -> list[str]:
        await _check(store, target, cluster, endpoint, force=force)
        pins = (await store.operator_keys([cluster], [])).weights.get(cluster, {})
        wanted = [endpoint] if endpoint else sorted(pins)
        return [address for address in wanted if await store.clear_field(f"weight:{cluster}", address)]

    cleared = target.ask(write)
    print(f"{cluster}: automatic again: {', '.join(cleared)}" if cleared else f"{cluster}: nothing was pinned")


def drain(
    cluster: Cluster,
    endpoint: Endpoint,
    reason: Annotated[str, typer.Option(help="why, for those who look at it later")] = NO_REASON,
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
    force: Force = False,
) -> None:
    """Send a replica no new traffic; what runs there ends in peace."""
    target = find_target(config, redis_url, redis_prefix)

    async def write(store: Store) -> None:
        await _check(store, target, cluster, endpoint, force=force)
        await store.set_field(f"drain:{cluster}", endpoint, reason)

    reason = " ".join(reason.split()) or NO_REASON
    target.ask(write)
    print(f"{cluster} {endpoint}: draining ({reason})")


def undrain(
    cluster: Cluster,
    endpoint: Endpoint,
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
    force: Force = False,
) -> None:
    """Let a drained replica take traffic again."""
    target = find_target(config, redis_url, redis_prefix)

    async def write(store: Store) -> bool:
        await _check(store, target, cluster, endpoint, force=force)
        return await store.clear_field(f"drain:{cluster}", endpoint)

    was = target.ask(write)
    print(f"{cluster} {endpoint}: {'takes traffic again' if was else 'was not draining'}")

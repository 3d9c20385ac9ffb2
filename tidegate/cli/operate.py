"""Subcommands that write operators' keys. What they write, a bare `redis-cli HSET` writes as well."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.connection import ConfigOption, PrefixOption, RedisOption, Target, find_target
from tidegate.domain.errors import ConfigError
from tidegate.store.ports import Store

Cluster = Annotated[str, typer.Argument(help="cluster name")]
Endpoint = Annotated[str, typer.Argument(help="host:port of the replica")]
Force = Annotated[bool, typer.Option("--force", help="write even when nobody knows that replica")]

weight_app = typer.Typer(no_args_is_help=True, help="Pin weights of replicas, and let go of them.")


def register(app: typer.Typer) -> None:
    """Add `weight`, `drain` and `undrain`."""
    app.add_typer(weight_app, name="weight")
    app.command()(drain)
    app.command()(undrain)


async def _known(store: Store, target: Target, cluster: str) -> set[str]:
    """Addresses of a cluster, from the file and from what agents registered."""
    known = {address for name, address, _ in await store.registered() if name == cluster}
    in_file = target.topology.cluster(cluster) if target.topology else None
    return known | ({e.address for e in in_file.endpoints} if in_file else set())


async def _check(store: Store, target: Target, cluster: str, endpoint: str) -> None:
    known = await _known(store, target, cluster)
    if endpoint not in known:
        have = ", ".join(sorted(known)) or "none"
        raise ConfigError([f"{cluster} has no replica {endpoint} (it has: {have}); --force writes it all the same"])


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
        if not force:
            await _check(store, target, cluster, endpoint)
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
) -> None:
    """Return a replica, or all of a cluster, to automatic weights."""
    target = find_target(config, redis_url, redis_prefix)

    async def write(store: Store) -> list[str]:
        pins = (await store.operator_keys([cluster], [])).weights.get(cluster, {})
        wanted = [endpoint] if endpoint else sorted(pins)
        return [address for address in wanted if await store.clear_field(f"weight:{cluster}", address)]

    cleared = target.ask(write)
    print(f"{cluster}: automatic again: {', '.join(cleared)}" if cleared else f"{cluster}: nothing was pinned")


def drain(
    cluster: Cluster,
    endpoint: Endpoint,
    reason: Annotated[str, typer.Option(help="why, for those who look at it later")] = "drained by an operator",
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
    force: Force = False,
) -> None:
    """Send a replica no new traffic; what runs there ends in peace."""
    target = find_target(config, redis_url, redis_prefix)

    async def write(store: Store) -> None:
        if not force:
            await _check(store, target, cluster, endpoint)
        await store.set_field(f"drain:{cluster}", endpoint, reason)

    target.ask(write)
    print(f"{cluster} {endpoint}: draining ({reason})")


def undrain(
    cluster: Cluster,
    endpoint: Endpoint,
    config: ConfigOption = None,
    redis_url: RedisOption = None,
    redis_prefix: PrefixOption = None,
) -> None:
    """Let a drained replica take traffic again."""
    target = find_target(config, redis_url, redis_prefix)
    was = target.ask(lambda store: store.clear_field(f"drain:{cluster}", endpoint))
    print(f"{cluster} {endpoint}: {'takes traffic again' if was else 'was not draining'}")

"""What an agent's tick becomes in Redis: commands as plain tuples, for the adapter to send and the bench to pack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidegate.domain.operators import FieldChange
from tidegate.domain.sample import NodeTick
from tidegate.store import schema
from tidegate.store.ports import Event

Command = tuple[str | int | bytes, ...]


def publish(keys: schema.Keys, tick: NodeTick, ttl_ms: int) -> list[Command]:
    """Hashes replaced (a field that became unknown goes away), both indexes, what left, one message."""
    node = tick.node
    commands = replace(keys.node(node.node), schema.encode_node(node), ttl_ms)
    commands.append(("ZADD", keys.nodes, node.sampled_at_ms, node.node))
    commands.append(("ZREMRANGEBYSCORE", keys.nodes, "-inf", node.sampled_at_ms - schema.INDEX_KEPT_MS))
    index: list[str | int] = []
    for sample in tick.endpoints:
        key = keys.endpoint(sample.cluster, sample.address)
        commands += replace(key, schema.encode_endpoint(sample), ttl_ms)
        index += [sample.sampled_at_ms, schema.member(sample.cluster, sample.address)]
    if index:
        commands.append(("ZADD", keys.endpoints, *index))
    commands += _leave(keys, tick)
    commands.append(("PUBLISH", keys.samples, schema.encode_tick(tick)))
    return commands


def _leave(keys: schema.Keys, tick: NodeTick) -> list[Command]:
    """Sample and place in the index go; the place among the departed stays for an hour."""
    commands: list[Command] = []
    at_ms = tick.node.sampled_at_ms
    for cluster, address in tick.gone:
        name = schema.member(cluster, address)
        commands.append(("DEL", keys.endpoint(cluster, address)))
        commands.append(("ZREM", keys.endpoints, name))
        commands.append(("ZADD", keys.gone, at_ms, name))
    if commands:
        commands.append(("ZREMRANGEBYSCORE", keys.gone, "-inf", at_ms - schema.INDEX_KEPT_MS))
    return commands


def replace(key: str, mapping: Mapping[str, Any], ttl_ms: int | None = None) -> list[Command]:
    """The hash at `key` becomes `mapping`, whatever was there; an empty one is no key."""
    commands: list[Command] = [("DEL", key)]
    if mapping:
        commands.append(("HSET", key, *(part for pair in mapping.items() for part in pair)))
        if ttl_ms is not None:
            commands.append(("PEXPIRE", key, ttl_ms))
    return commands


_SWAP: Final = """
if redis.call("HGET", KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] then redis.call("HSET", KEYS[1], ARGV[1], ARGV[3]) else redis.call("HDEL", KEYS[1], ARGV[1]) end
return 1
"""


def change(key: str, wanted: FieldChange) -> Command:
    """HSET or HDEL; by a script where it depends on the text that is there."""
    value = () if wanted.value is None else (wanted.value,)
    if wanted.only_if is not None:
        return ("EVAL", _SWAP, 1, key, wanted.field, wanted.only_if, *value)
    return ("HSET", key, wanted.field, *value) if value else ("HDEL", key, wanted.field)


def append_event(keys: schema.Keys, event: Event) -> Command:
    """XADD to the audit log, which keeps about EVENTS_KEPT entries."""
    return ("XADD", keys.events, "MAXLEN", "~", schema.EVENTS_KEPT, "*", *schema.encode_event(event))


def packed(commands: Iterable[Command]) -> bytes:
    """The commands as RESP, in the order given."""
    return b"".join(map(_packed, commands))


def _packed(command: Command) -> bytes:
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)

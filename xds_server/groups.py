"""Which Envoys get the same configuration.

An Envoy names its group as `tidegate_group` in its node's metadata, else by its node's cluster. A group for which
nothing of its own is published gets what the default group gets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

DEFAULT_GROUP: Final = ""
GROUP_METADATA: Final = "tidegate_group"


@dataclass(frozen=True, slots=True)
class Node:
    """What a client says of itself in the first message of a stream."""

    id: str = ""
    cluster: str = ""
    group: str = ""


GroupOf = Callable[[Node], str]


def node_of(message: Any) -> Node:
    """Read a `config.core.v3.Node`."""
    fields = message.metadata.fields
    group = fields[GROUP_METADATA].string_value if GROUP_METADATA in fields else ""
    return Node(message.id, message.cluster, group)


def group_of(node: Node) -> str:
    """The group that a node asks for."""
    return node.group or node.cluster

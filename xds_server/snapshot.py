"""What to serve: an immutable set of resources, with versions that are hashes of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import any_pb2

from xds_server.type_urls import PUSH_ORDER

NO_RESOURCES: Final[Mapping[str, Resource]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource as it goes over the wire. Two of one name are equal when their bytes are."""

    name: str
    version: str
    body: any_pb2.Any = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TypedResources:
    """Every resource of one type by name, sorted by name; `version` changes exactly when one of them does."""

    version: str
    by_name: Mapping[str, Resource]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that an Envoy may ask for, at one moment, by type URL."""

    types: Mapping[str, TypedResources]

    def version(self, type_url: str) -> str:
        """The version of a type; hexadecimal, the same in every process that serves the same content."""
        return self.types[type_url].version

    def resources(self, type_url: str) -> Mapping[str, Resource]:
        """The resources of a type by name; empty for a type that is not served."""
        typed = self.types.get(type_url)
        return typed.by_name if typed else NO_RESOURCES

    def changed_types(self, before: Snapshot | None) -> tuple[str, ...]:
        """The type URLs whose content differs from `before`, in push order; all when there is none."""
        return tuple(t for t in self.types if before is None or before.version(t) != self.version(t))


def resource(type_url: str, name: str, message: Any) -> Resource:
    """Serialise a protobuf message once, deterministically: equal content has equal bytes and version."""
    value = message.SerializeToString(deterministic=True)
    return Resource(name, _digest([value]), any_pb2.Any(type_url=type_url, value=value))


def version_of(resources: Iterable[Resource]) -> str:
    """The version of a set of resources, whatever their order."""
    ordered = sorted(resources, key=lambda r: r.name)
    return _digest(part.encode() for r in ordered for part in (r.name, r.version))


def snapshot_of(messages: Mapping[str, Mapping[str, Any]]) -> Snapshot:
    """Freeze protobuf messages by type URL and name. `consistency.check` comes first."""
    return Snapshot(MappingProxyType({t: _typed(t, messages.get(t, {})) for t in PUSH_ORDER}))


def _typed(type_url: str, messages: Mapping[str, Any]) -> TypedResources:
    by_name = {name: resource(type_url, name, messages[name]) for name in sorted(messages)}
    return TypedResources(version_of(by_name.values()), MappingProxyType(by_name))


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.hexdigest()

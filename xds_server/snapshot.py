"""What to serve: an immutable set of resources, with versions that are hashes of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import any_pb2

from xds_server import wire
from xds_server.type_urls import PUSH_ORDER

NO_RESOURCES: Final[Mapping[str, Resource]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource as it goes over the wire. Two of one name are equal when their bytes are.

    `packed` is the serialised Any; after `head` it is an entry of a state-of-the-world response, after `delta_head`
    one of a delta response.
    """

    name: str
    version: str
    packed: bytes = field(compare=False, repr=False)
    head: bytes = field(compare=False, repr=False)
    delta_head: bytes = field(compare=False, repr=False)

    @property
    def body(self) -> any_pb2.Any:
        """The resource as an Any."""
        return any_pb2.Any.FromString(self.packed)


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

    def with_type(self, type_url: str, resources: TypedResources) -> Snapshot:
        """This snapshot with other resources of one type."""
        return Snapshot(MappingProxyType({t: resources if t == type_url else r for t, r in self.types.items()}))

    def changed_types(self, before: Snapshot | None) -> tuple[str, ...]:
        """The type URLs whose content differs from `before`, in push order; all when there is none."""
        return tuple(t for t in self.types if before is None or before.version(t) != self.version(t))


def resource(type_url: str, name: str, message: Any) -> Resource:
    """Serialise a protobuf message once, deterministically: equal content has equal bytes and version."""
    value = message.SerializeToString(deterministic=True)
    version, packed = _digest([value]), wire.any_bytes(type_url, value)
    return Resource(name, version, packed, wire.field_head(2, len(packed)), wire.delta_head(name, version, len(packed)))


def version_of(resources: Iterable[Resource]) -> str:
    """The version of a set of resources, whatever their order."""
    return _version_of_sorted(sorted(resources, key=lambda r: r.name))


def _version_of_sorted(resources: Iterable[Resource]) -> str:
    return _digest(part.encode() for r in resources for part in (r.name, r.version))


def snapshot_of(messages: Mapping[str, Mapping[str, Any]]) -> Snapshot:
    """Freeze protobuf messages by type URL and name. `consistency.check` comes first."""
    return Snapshot(MappingProxyType({t: typed(_frozen(t, messages.get(t, {}))) for t in PUSH_ORDER}))


def typed(resources: Iterable[Resource]) -> TypedResources:
    """Resources of one type, each name once, as a whole."""
    by_name = {r.name: r for r in sorted(resources, key=lambda r: r.name)}
    return TypedResources(_version_of_sorted(by_name.values()), MappingProxyType(by_name))


def _frozen(type_url: str, messages: Mapping[str, Any]) -> Iterator[Resource]:
    return (resource(type_url, name, message) for name, message in messages.items())


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.hexdigest()

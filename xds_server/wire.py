"""Protobuf's bytes by hand, where whole messages are put together from parts that are already serialised.

    DiscoveryResponse       1 version_info          2 resources (Any)       4 type_url  5 nonce
    DeltaDiscoveryResponse  1 system_version_info   2 resources (Resource)  4 type_url  5 nonce  6 removed_resources
    Resource                1 version               2 resource (Any)        3 name
    Any                     1 type_url              2 value

A resource is serialised once for every version; each response to each stream holds those same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable


def field_bytes(number: int, value: bytes) -> bytes:
    """One length-delimited field (1…15); nothing at all when it is empty, as proto3 has it."""
    return field_head(number, len(value)) + value if value else b""


def field_head(number: int, length: int) -> bytes:
    """What stands before the value of a length-delimited field: its tag and its length."""
    return bytes((number << 3 | 2,)) + varint(length)


def varint(value: int) -> bytes:
    """A number of 0 or more, seven bits a byte, the lowest first."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def any_bytes(type_url: str, value: bytes) -> bytes:
    """A serialised Any."""
    return field_bytes(1, type_url.encode()) + field_bytes(2, value)


def delta_head(name: str, version: str, any_length: int) -> bytes:
    """What makes a `resources` entry of a DeltaDiscoveryResponse of the Any that follows it."""
    own = field_bytes(3, name.encode()) + field_bytes(1, version.encode()) + field_head(2, any_length)
    return field_head(2, len(own) + any_length) + own


def response_bytes(
    version: str, parts: Iterable[bytes], type_url: str, nonce: str, removed: Iterable[str] = ()
) -> bytes:
    """A DiscoveryResponse or DeltaDiscoveryResponse around the fields of its resources."""
    tail = field_bytes(4, type_url.encode()) + field_bytes(5, nonce.encode())
    gone = (field_head(6, len(name)) + name for name in (r.encode() for r in removed))
    return b"".join((field_bytes(1, version.encode()), *parts, tail, *gone))

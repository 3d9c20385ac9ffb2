"""The constraints that Envoy's protos put on their fields, checked here as Envoy checks them on arrival.

The rules are options in the descriptors (protoc-gen-validate), so that this knows every message that Envoy knows.
Patterns are taken as Python's, which for the protos' own is the same language as RE2. What is packed in an Any is
checked too, where its type is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from validate import validate_pb2

ANY: Final = "google.protobuf.Any"
DURATION: Final = "google.protobuf.Duration"
NANOS: Final = 1_000_000_000
_HEADER_NAME: Final = re.compile(r":?[0-9a-zA-Z!#$%&'*+\-.^_|~`]+")
_UNSAFE: Final = re.compile(r"[\x00\n\r]")
_COMPARISONS: Final[tuple[tuple[str, str, Callable[[Any, Any], bool]], ...]] = (
    ("lt", "must be below", lambda value, limit: value < limit),
    ("lte", "must be at most", lambda value, limit: value <= limit),
    ("gt", "must be above", lambda value, limit: value > limit),
    ("gte", "must be at least", lambda value, limit: value >= limit),
)
Broken = Iterator[tuple[str, str]]
"""Paths of fields, and what is wrong with each."""


def broken_constraints(message: Any) -> Broken:
    """Every constraint that this message breaks, in itself or in what it holds, by the path of the field."""
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == ANY:
        yield from _packed(message)
        return
    for oneof in _required_oneofs(descriptor):
        if message.WhichOneof(oneof) is None:
            yield oneof, "must be set"
    always, if_set = _checked_fields(descriptor)
    for field, rules in always:
        for path, what in _field(message, field, rules):
            yield f"{field.name}{path}", what
    for field, _ in message.ListFields():
        if field.number in if_set:
            for path, what in _field(message, field, if_set[field.number]):
                yield f"{field.name}{path}", what


def _packed(message: any_pb2.Any) -> Broken:
    kind = _kind_of(message.type_url.rpartition("/")[2])
    if kind is not None:
        yield from broken_constraints(kind.FromString(message.value))


@cache
def _kind_of(full_name: str) -> Any:
    try:
        return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(full_name))
    except KeyError:
        return None


@cache
def _required_oneofs(descriptor: Any) -> tuple[str, ...]:
    return tuple(o.name for o in descriptor.oneofs if o.GetOptions().Extensions[validate_pb2.required])


@cache
def _checked_fields(descriptor: Any) -> tuple[tuple[tuple[FieldDescriptor, Any], ...], dict[int, Any]]:
    """Fields whose rules bind even when they are not set, and those, by number, that are looked at when they are.

    A field without rules that holds messages is looked at for what these hold.
    """
    options = descriptor.GetOptions()
    if options.Extensions[validate_pb2.disabled] or options.Extensions[validate_pb2.ignored]:
        return (), {}
    rules = [(f, f.GetOptions().Extensions[validate_pb2.rules]) for f in descriptor.fields]
    always = tuple((f, r) for f, r in rules if r.ByteSize() and (not f.has_presence or _is_required(r)))
    bound = {f.number for f, _ in always}
    return always, {f.number: r for f, r in rules if f.number not in bound and (f.message_type or r.ByteSize())}


def _field(message: Any, field: FieldDescriptor, rules: Any) -> Broken:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(getattr(message, field.name), rules)
    if field.is_repeated:
        return _list(getattr(message, field.name), rules)
    if field.has_presence and not message.HasField(field.name):
        required = _is_required(rules) and field.containing_oneof is None
        return iter([("", "must be set")] if required else [])
    if rules.enum.defined_only and getattr(message, field.name) not in _numbers_of(field.enum_type):
        return iter([("", f"{getattr(message, field.name)} is not defined")])
    return _value(getattr(message, field.name), rules)


@cache
def _numbers_of(enum: Any) -> frozenset[int]:
    return frozenset(value.number for value in enum.values)


def _is_required(rules: Any) -> bool:
    kind = rules.WhichOneof("type")
    return rules.message.required or (kind in {"any", "duration", "timestamp"} and getattr(rules, kind).required)


def _list(values: Any, rules: Any) -> Broken:
    own = rules.repeated
    if own.min_items > len(values):
        yield "", f"must have at least {own.min_items} items"
    if own.HasField("max_items") and own.max_items < len(values):
        yield "", f"must have at most {own.max_items} items"
    if own.unique and len(set(values)) < len(values):
        yield "", "must not have an item twice"
    for number, value in enumerate(values):
        for path, what in _value(value, own.items):
            yield f"[{number}]{path}", what


def _map(values: Any, rules: Any) -> Broken:
    own = rules.map
    if own.min_pairs > len(values):
        yield "", f"must have at least {own.min_pairs} entries"
    for key in sorted(values):
        for path, what in (*_value(key, own.keys), *_value(values[key], own.values)):
            yield f"[{key}]{path}", what


def _value(value: Any, rules: Any) -> Broken:
    if not hasattr(value, "DESCRIPTOR"):
        yield from (("", what) for what in _scalar(value, rules))
        return
    name = value.DESCRIPTOR.full_name
    kind = rules.WhichOneof("type")
    if name == DURATION:
        yield from (("", what) for what in _duration(value, rules.duration))
    elif kind not in {None, "message", "any"} and name.endswith("Value"):  # a wrapped scalar
        yield from (("", what) for what in _scalar(value.value, rules))
    elif not rules.message.skip:
        for path, what in broken_constraints(value):
            yield f".{path}" if path else path, what


def _duration(value: Any, rules: Any) -> Iterator[str]:
    nanos = value.seconds * NANOS + value.nanos
    if nanos < 0:
        yield f"{nanos / NANOS} s is negative"
    for name, words, holds in _COMPARISONS:
        if rules.HasField(name):
            limit = getattr(rules, name)
            if not holds(nanos, limit.seconds * NANOS + limit.nanos):
                yield f"{nanos / NANOS} s {words} {limit.seconds + limit.nanos / NANOS} s"


def _scalar(value: Any, rules: Any) -> Iterator[str]:
    kind = rules.WhichOneof("type")
    if kind is None or kind in {"message", "repeated", "map"}:
        return
    own = getattr(rules, kind)
    if getattr(own, "ignore_empty", False) and not value:
        return
    if own.HasField("const") and value != own.const:
        yield f"must be {own.const!r}"
    if kind == "string":
        yield from _string(value, own)
    elif kind == "bytes":
        yield from _size(len(value), own.min_len, own.max_len if own.HasField("max_len") else None, "bytes")
    elif kind == "enum":
        yield from _membership(value, own)
    elif kind != "bool":
        yield from _number(value, own)


def _number(value: Any, rules: Any) -> Iterator[str]:
    for name, words, holds in _COMPARISONS:
        if rules.HasField(name) and not holds(value, getattr(rules, name)):
            yield f"{value} {words} {getattr(rules, name)}"
    yield from _membership(value, rules)


def _membership(value: Any, rules: Any) -> Iterator[str]:
    if (allowed := getattr(rules, "in")) and value not in allowed:
        yield f"{value!r} is none of {', '.join(map(str, allowed))}"
    if value in rules.not_in:
        yield f"must not be {value!r}"


def _string(value: str, rules: Any) -> Iterator[str]:
    size = len(value.encode())
    yield from _size(len(value), rules.min_len, rules.max_len if rules.HasField("max_len") else None, "characters")
    yield from _size(size, rules.min_bytes, rules.max_bytes if rules.HasField("max_bytes") else None, "bytes")
    if not value.startswith(rules.prefix):
        yield f"{value!r} must begin with {rules.prefix!r}"
    if rules.pattern and not re.search(rules.pattern, value):
        yield f"{value!r} must match {rules.pattern}"
    known = rules.WhichOneof("well_known") == "well_known_regex" and bool(value)
    strict = rules.strict and rules.well_known_regex == validate_pb2.HTTP_HEADER_NAME
    if known and (not _HEADER_NAME.fullmatch(value) if strict else _UNSAFE.search(value)):
        yield f"{value!r} has characters that no header may have"
    yield from _membership(value, rules)


def _size(size: int, least: int, most: int | None, unit: str) -> Iterator[str]:
    if size < least:
        yield f"must have at least {least} {unit}"
    if most is not None and size > most:
        yield f"must have at most {most} {unit}"

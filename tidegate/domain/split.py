"""Which version of a model a request meets: shares in parts per thousand, kept by each user while they change. Pure.

    slot     = xxh3_64(salt + NUL + identity) * 1000 >> 64                 0…999, equal in every process
    version  = layout(parts)[slot]

A layout gives each version as many of the 1000 slots as its share has parts. The first version is the base: it holds
what the others leave. Each further one has a home that begins at a fixed slot (0, 500, 250, 750, 125 …: for the i-th,
the bits of i in reverse) and ends where the next begins. It takes slots from there on; where it outgrows its home, free
ones behind it. So

- of two versions, exactly the users of the moved slice move, whatever the shares are and become;
- of more, the same holds while one grows at the base's cost and those that are not the base stay in their homes:
  up to 500 ‰ for one of two, up to 250 ‰ for one of three or four. A version that outgrew its home may, when it or
  a neighbour changes, exchange users with the base beyond that. No rule that looks at the present shares alone can move
  the least in every case (Bavarian et al., "On the optimality of correlated sampling strategies", 2016).

A version at 0 holds no slot, but keeps its home while it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from xxhash import xxh3_64_intdigest

from tidegate.domain.routing import PERMILLE
from tidegate.domain.topology import Topology

Parts = tuple[tuple[str, int], ...]
"""Versions (names of clusters) and their shares in parts per thousand, the base first."""
Header = Callable[[str], str | None]

KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key")
"""Where clients send their API key. Of its text nothing but a hash is looked at, and nothing is kept."""
PREFIX: Final = "split:"
_NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
_SHOWN_CHARACTERS: Final = 40


def point(identity: str, salt: str) -> int:
    """A 64-bit number that is always the same for an identity and a salt, and spread evenly over identities."""
    return xxh3_64_intdigest(f"{salt}\0{identity}".encode("utf-8", "surrogatepass"))


def slot_of(number: int, slots: int = PERMILLE) -> int:
    """The slot, 0…slots - 1, of a 64-bit number."""
    return number * slots >> 64


def identity_of(user: str | None, header: Header, user_header: str | None, address: str | None) -> str | None:
    """Who asks: the `user` of the body, else the header that the file names, else the API key, else the address.

    `address` is the client's `ip:port`, of which the IP counts. None where nothing of that is there.
    """
    said = (user, header(user_header) if user_header else None, *map(header, KEY_HEADERS))
    found = next((one for one in said if one), None)
    return found or (address.rpartition(":")[0] if address else None) or None


@lru_cache(maxsize=1024)
def layout(parts: Parts) -> tuple[str, ...]:
    """The version of each of the 1000 slots. Raises ValueError unless the shares sum to 1000."""
    if sum(share for _, share in parts) != PERMILLE:
        raise ValueError("shares of a layout have to sum to 1000")
    held: list[str | None] = [None] * PERMILLE
    others = parts[1:]
    homes = _homes(len(others))
    lacking = [
        (name, begin, _take(held, name, share, range(begin, end)))
        for (name, share), (begin, end) in zip(others, homes, strict=True)
    ]
    for name, begin, share in lacking:
        _take(held, name, share, (place % PERMILLE for place in range(begin, begin + PERMILLE)))
    base = parts[0][0]
    return tuple(one if one is not None else base for one in held)


def _take(held: list[str | None], name: str, share: int, places: Iterable[int]) -> int:
    """Let `name` have up to `share` of the free places; how many it lacks."""
    for place in places:
        if share == 0:
            break
        if held[place] is None:
            held[place] = name
            share -= 1
    return share


def _homes(count: int) -> list[tuple[int, int]]:
    """Where the home of each of `count` versions begins and ends. Begins differ up to 512 versions."""
    begins = [_begin(number) for number in range(count)]
    ordered = [*sorted(set(begins)), PERMILLE]
    ends = dict(pairwise(ordered))
    return [(begin, ends[begin]) for begin in begins]


def _begin(number: int) -> int:
    """0, 1/2, 1/4, 3/4, 1/8, 5/8 … of the slots: van der Corput's sequence."""
    begin, width = 0, PERMILLE
    while number:
        width >>= 1
        begin += width * (number & 1)
        number >>= 1
    return begin


def drawn(parts: Parts, number: int) -> str | None:
    """A version in proportion to the shares, which may sum to anything; None when they sum to 0."""
    place = slot_of(number, sum(share for _, share in parts))
    for name, share in parts:
        if place < share:
            return name
        place -= share
    return None


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request says of the version that it wants: its name, or whether it is to be a canary."""

    version: str | None = None
    canary: bool | None = None


NOTHING: Final = Asking()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The version that a request meets. `instead_of` is the one that was meant, and that serves nobody at present.

    `serves` tells whether the version serves anybody itself: one that was asked for gives way to none, nor does the
    last that has a share.
    """

    version: str
    instead_of: str | None = None
    serves: bool = True


@dataclass(frozen=True, slots=True)
class ModelSplit:
    """The split of a model that is in force. `canary` are the versions that `X-Canary: true` means."""

    model: str
    parts: Parts
    salt: str
    canary: frozenset[str] = frozenset()

    @property
    def versions(self) -> tuple[str, ...]:
        """Names of the clusters, the base first."""
        return tuple(name for name, _ in self.parts)

    def choose(self, number: int, serves: Callable[[str], bool], asking: Asking = NOTHING) -> Chosen:
        """The version for a request whose identity and salt give `number` (64 bits).

        A version that serves nobody gives way to the others, in proportion to their shares; those at 0 never get
        anything, so that with no other there is no way out. One that a request asks for gives way to none.
        """
        if asking.version is not None:
            return Chosen(asking.version, serves=serves(asking.version))
        if asking.canary and self.canary:
            canary = self._canary(number)
            return Chosen(canary, serves=serves(canary))
        parts = self.parts
        meant = layout(parts)[slot_of(number)]
        if asking.canary is False and meant in self.canary:
            parts = tuple((name, share) for name, share in parts if name not in self.canary)
            meant = drawn(parts, again(number, "")) or meant
        if serves(meant):
            return Chosen(meant)
        rest = tuple((name, share) for name, share in parts if name != meant and share and serves(name))
        other = drawn(rest, again(number, meant))
        return Chosen(meant, serves=False) if other is None else Chosen(other, instead_of=meant)

    def _canary(self, number: int) -> str:
        """One of the canaries, by their shares, or evenly where they have none."""
        parts = tuple((name, share) for name, share in self.parts if name in self.canary)
        evenly = tuple((name, 1) for name in sorted(self.canary))
        return drawn(parts, again(number, "")) or drawn(evenly, again(number, "")) or evenly[0][0]


def again(number: int, why: str) -> int:
    """Another 64-bit number for the same user, independent of the first: one for each reason."""
    return xxh3_64_intdigest(number.to_bytes(8, "little") + why.encode())


def in_force(topology: Topology, tuned: Mapping[str, str]) -> dict[str, ModelSplit]:
    """By model, the splits in force: those in `tuned`, by `split:{model}`, else those of the file.

    A text that names what is no longer in the file counts for nothing.
    """
    known = frozenset(topology.split_models)
    models = {split.model for split in topology.splits}
    models |= {model for key in tuned if (model := key.removeprefix(PREFIX)) != key and model in known}
    found = ((model, _of_model(topology, model, tuned.get(split_key(model)))) for model in sorted(models))
    return {model: split for model, split in found if split is not None}


def _of_model(topology: Topology, model: str, text: str | None) -> ModelSplit | None:
    file, parts = topology.split(model), None
    if text is not None:
        with suppress(ValueError):
            parts = read_parts(fields_of(text), topology.versions(model))
    if parts is None:
        parts = file.parts if file else None
    salt = file.salt if file and file.salt else model
    return None if parts is None else ModelSplit(model, parts, salt, frozenset(file.canary if file else ()))


# --- what operators type, and what is in force --------------------------------------------------------------


def split_key(model: str) -> str:
    """How `rejected`, `tuned` and `events` name the split of a model."""
    return PREFIX + model


def text_of(parts: Parts) -> str:
    """`stable=990 canary=10`."""
    return " ".join(f"{name}={share}" for name, share in parts)


def fields_of(text: str) -> dict[str, str]:
    """The inverse of `text_of`, without a check."""
    pairs = (word.partition("=") for word in text.split())
    return {name: share for name, _, share in pairs}


def read_parts(fields: Mapping[str, str], order: Sequence[str]) -> Parts:
    """Cluster → text of a share, as parts in the order of `order`, which names every cluster that there may be.

    Raises ValueError with a sentence: a cluster that is not there, a bad number, a sum that is not 1000.
    """
    for name, text in fields.items():
        if name not in order:
            raise ValueError(f"there is no cluster {_shown(name)}")
        if not _NUMBER.fullmatch(text) or int(text) > PERMILLE:
            raise ValueError(f"the share of {name}, {_shown(text)}, is not a whole number from 0 to {PERMILLE}")
    parts = tuple((name, int(fields[name])) for name in order if name in fields)
    total = sum(share for _, share in parts)
    if total != PERMILLE:
        raise ValueError(f"its shares sum to {total}; they have to sum to {PERMILLE}")
    return parts


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


@dataclass(frozen=True, slots=True)
class Judged:
    """By `split:{model}`: the splits that operators typed and that are in force, and why others are refused."""

    in_force: Mapping[str, str]
    rejected: Mapping[str, str]


def judge(
    typed: Mapping[str, Mapping[str, str]],
    order_of: Callable[[str], Sequence[str]],
    last_good: Mapping[str, str],
    broken: Collection[str] = (),
) -> Judged:
    """What of `typed`, by model and cluster, is good. What is refused leaves the last good split in force.

    `order_of` gives the clusters that there may be, in order, by model; `broken` are keys that cannot be read;
    `last_good` is the `in_force` of before, among other things. Without a last good one the file's split holds.
    """
    in_force: dict[str, str] = {}
    rejected: dict[str, str] = {}
    for model, fields in [*_unreadable(last_good, broken), *typed.items()]:
        key, order = split_key(model), order_of(model)
        try:
            in_force[key] = text_of(read_parts(fields, order))
        except ValueError as exc:
            last = good_text(last_good.get(key), order)
            rejected[key] = f"{exc}; {_stays(last)}"
            if last is not None:
                in_force[key] = last
    return Judged(in_force, rejected)


def good_text(text: str | None, order: Sequence[str]) -> str | None:
    """`text` as it was written, None when it is none or names what is no longer there."""
    try:
        return None if text is None else text_of(read_parts(fields_of(text), order))
    except ValueError:
        return None


def _stays(last: str | None) -> str:
    return (
        "the file's split, if it has one, stays in force"
        if last is None
        else f"the last good split, {last}, stays in force"
    )


def _unreadable(last_good: Mapping[str, str], broken: Collection[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Splits whose key holds no hash: what was good stays."""
    for key, text in last_good.items():
        if key in broken and key.startswith(PREFIX):
            yield key.removeprefix(PREFIX), fields_of(text)

"""What services ask of the store. Every method raises StoreUnavailable or StoreRefused, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.domain.actions.act import Act
from tidegate.domain.actions.effects import Effects
from tidegate.domain.actions.notice import Notice
from tidegate.domain.lease import Lease
from tidegate.domain.operators import FieldChange
from tidegate.domain.outcomes.report import Report
from tidegate.domain.sample import EndpointSample, NodeSample, NodeTick
from tidegate.domain.scaling.rule import Course
from tidegate.domain.tuning import good_tunes
from tidegate.store.picks import PickBatch
from tidegate.store.rollouts import SplitLine

Mix = Mapping[str, Mapping[str, Mapping[int, int]]]


@dataclass(frozen=True, slots=True)
class RawOperatorKeys:
    """What operators typed, not validated: by cluster, `host:port` → text; `tunes` by scope ("" is global).

    `broken` names the keys that hold no hash (somebody did SET weight:phi-3 x) and why; they count as empty.
    `tuned` are the tunes in force as the controller wrote them: `tune:phi-3 envoy.retries` → text.
    """

    weights: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    drains: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tunes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    splits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    tuned: Mapping[str, str] = field(default_factory=dict)

    def good_tunes(self) -> dict[str, dict[str, str]]:
        """`tunes` with nothing bad in it: of what is refused, the last good value that the controller knows."""
        return good_tunes(self.tunes, self.tuned, self.broken)


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """What the controller decided for one cluster: by address, a weight 0…1000, and why (JSON-able).

    `explain` is None where what was written before stays: weights may move more often than anybody reads why.
    """

    cluster: str
    effective: Mapping[str, int]
    explain: Mapping[str, Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the audit log `events`: who changed what, from which value to which, and why."""

    at_ms: int
    who: str
    what: str
    before: str = ""
    after: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The oldest entries of the inbox, `taken` of them, and which notices they are.

    `kept` is False where the store remembers no notices, not even that there are none: it is new, or was emptied.
    """

    notices: Sequence[Notice]
    taken: int
    kept: bool
    now_ms: int


class SampleSink(Protocol):
    """Agents write here."""

    async def publish(self, tick: NodeTick, *, ttl_ms: int) -> None:
        """Write the node, its endpoints and the index, and send one `samples` message, in one pipeline.

        What the tick calls gone leaves the index, with its sample, and is remembered as departed for an hour.
        """


class SampleSource(Protocol):
    """Controller, ext_proc and status read samples here."""

    async def samples(self, clusters: Collection[str] | None = None) -> list[EndpointSample]:
        """Every endpoint of the index, or of those clusters alone, that still has a sample."""

    async def registered(self) -> list[tuple[str, str, int]]:
        """The index: (cluster, address, sampled_at_ms), also of endpoints whose sample has expired."""

    async def departed(self) -> set[tuple[str, str]]:
        """(cluster, address) that left on purpose within the last hour and did not come back.

        What is neither registered nor departed was lost: an emptied store says nothing about anybody.
        """

    async def roll(self) -> tuple[list[tuple[str, str, int]], set[tuple[str, str]]]:
        """`registered` and `departed` of one moment, in one round trip."""

    async def nodes(self) -> list[NodeSample]:
        """Every node that still has a sample."""

    def ticks(self) -> AsyncIterator[NodeTick]:
        """Messages of the channel `samples` as they come. Ends only by raising a StoreError."""


class TimeSource(Protocol):
    """Whoever writes or judges a sample's time asks here, through `tidegate.store.clock`."""

    async def time_ms(self) -> float:
        """The store's Unix time in milliseconds."""


class OperatorKeys(Protocol):
    """What operators write, and the CLI on their behalf."""

    async def operator_keys(self, clusters: Sequence[str], models: Sequence[str]) -> RawOperatorKeys:
        """Weights, drains and tunes of these clusters and splits of these models, in one round trip."""

    async def operator_key_names(self) -> list[str]:
        """Every `weight:…`, `drain:…`, `tune:…` and `split:…` that is there, without the prefix.

        It takes as long as the store has keys, whoever's they are: call it rarely.
        """

    async def set_field(self, key: str, field: str, value: str) -> None:
        """HSET on a prefixed operator key, such as `weight:phi-3`."""

    async def clear_field(self, key: str, field: str) -> bool:
        """HDEL on a prefixed operator key; True when the field was there."""

    async def change_fields(
        self, changes: Sequence[FieldChange], events: Sequence[Event], *, lease: Lease | None = None
    ) -> list[bool]:
        """Carry out all changes and append the events, atomically; whether each change did anything.

        One with `only_if` does nothing where the field holds another text; the events are appended all the same.
        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """


class DecisionLog(Protocol):
    """The controller writes here; xds_server, ext_proc and status read."""

    async def write_decisions(
        self,
        decisions: Sequence[ClusterDecision],
        rejected: Mapping[str, str],
        events: Sequence[Event],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Replace `effective:`/`explain:` of each given cluster and `rejected`, append events; atomically.

        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """

    async def restore(
        self, keys: RawOperatorKeys, heard_ms: Mapping[tuple[str, str], int], *, lease: Lease | None = None
    ) -> None:
        """Write operators' fields and places of the index back into an emptied store, where they are missing.

        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """

    async def effective(self, clusters: Sequence[str]) -> dict[str, dict[str, int]]:
        """The published weights by cluster and address; a cluster nobody decided on is an empty dict."""

    async def explain(self, clusters: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """Why each weight is what it is, by cluster and address."""

    async def rejected(self) -> dict[str, str]:
        """Operator key → why it was not accepted."""

    async def events(self, count: int) -> list[Event]:
        """The newest `count` events, oldest first."""

    async def events_after(self, mark: str) -> tuple[list[Event], str]:
        """Events that came after `mark`, oldest first, and the mark for the next call; "" is the present."""


class Leadership(Protocol):
    """One controller leads. What it writes under its lease, it writes only while that lease is in force."""

    async def take_lead(self, instance: str, *, ttl_ms: int) -> Lease | None:
        """A lease for `ttl_ms`, or None while somebody has one."""

    async def keep_lead(self, lease: Lease, *, ttl_ms: int) -> None:
        """Extend a lease to `ttl_ms` from now. Raises NotLeading when it is not in force."""

    async def resign(self, lease: Lease) -> None:
        """End a lease, so that another may lead at once; nothing happens where it is not in force."""

    async def leader(self) -> Lease | None:
        """The lease in force."""


class Acts(Protocol):
    """What alerts, annotations and built-in rules have set in motion. Each source writes its own, whole."""

    async def acts(self, source: str | None = None) -> list[Act]:
        """Those in force, of one source or of all, dry runs among them. What is not of that shape is left out."""

    async def effects(self) -> Effects:
        """What they add up to."""

    async def write_acts(
        self, source: str, acts: Sequence[Act], events: Sequence[Event], *, lease: Lease | None = None
    ) -> None:
        """Replace the acts of `source` and append events, atomically; say `nudge` afterwards, so that all look at once.

        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """


class Inbox(Protocol):
    """What hooks hear, of any controller, until the one that leads has taken it in."""

    async def deliver(self, notices: Sequence[Notice], *, most: int) -> bool:
        """Put them behind those that wait; False, and nothing is put, where more than `most` would wait."""

    async def delivered(self, count: int) -> Delivered:
        """The oldest `count` entries; they stay until `settle` takes them."""

    async def notices(self) -> dict[str, Notice]:
        """What was taken in, by key."""

    async def settle(
        self,
        taken: int,
        notices: Mapping[str, Notice | None],
        acts: Sequence[Act],
        events: Sequence[Event],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Take the oldest `taken` entries out of the inbox, remember `notices` (None: forget), replace the acts that
        follow from notices, append events; atomically.

        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """


class Targets(Protocol):
    """How many replicas each cluster should have, for whoever starts and ends them."""

    async def targets(self, clusters: Sequence[str]) -> dict[str, Course]:
        """What was written last, of the clusters that have a target; what is no target is left out."""

    async def write_targets(
        self, courses: Mapping[str, Course], events: Sequence[Event], *, lease: Lease | None = None
    ) -> None:
        """Replace those of the given clusters and append events, atomically.

        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """


class Mixes(Protocol):
    """Which classes of requests each replica got, as pickers tell it: cluster → address → class → requests."""

    async def tell_mix(self, instance: str, mix: Mix, *, ttl_ms: int) -> None:
        """What `instance` sent in the last minute; forgotten when `ttl_ms` passes."""

    async def mixes(self) -> list[Mix]:
        """What each instance told last. What is not of that shape is left out."""


class Outcomes(Protocol):
    """How requests ended, as instances of the outcomes service tell it; readers add their reports up."""

    async def tell_outcomes(self, instance: str, report: Report, *, ttl_ms: int) -> None:
        """Replace what `instance` told; forgotten when `ttl_ms` passes."""

    async def outcomes(
        self, clusters: Sequence[str], models: Sequence[str] = (), versions: Sequence[str] = ()
    ) -> list[Report]:
        """What each instance told last of these clusters, objectives of models, and versions of models.

        Two round trips. What is not of that shape is left out.
        """


class Rollouts(Protocol):
    """Rollouts of versions, and what became of splits. The controller writes by `change_fields`."""

    async def rollouts(self, models: Sequence[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """`rollout:{model}` of those models that have one, and the hash `rollouts`; in one round trip."""

    async def note_split(self, model: str, line: SplitLine, *, lease: Lease | None = None) -> None:
        """Append to the history of a split, which keeps about the newest 2,000 lines.

        With a `lease`, nothing is written unless it is in force: raises NotLeading.
        """

    async def split_history(self, model: str, count: int) -> list[SplitLine]:
        """The newest `count` lines, oldest first."""


class Nudges(Protocol):
    """A word that something was decided, for whoever would else find it at the next look.

    It carries nothing and may be lost: who misses it looks a moment later.
    """

    async def nudge(self) -> None:
        """Say so."""

    def nudges(self) -> AsyncIterator[None]:
        """One item a word, from the first `anext` on. Ends only by raising a StoreError."""


class PickShare(Protocol):
    """What instances of ext_proc tell one another of their dispatches. A message may be lost, or late."""

    async def share(self, batch: PickBatch) -> None:
        """Tell every instance, this one included."""

    def shared(self) -> AsyncIterator[PickBatch]:
        """Batches of every instance, from the first `anext` on. Ends only by raising a StoreError."""


class Presence(Protocol):
    """Who is alive: services beat, status looks."""

    async def beat(self, service: str, instance: str, info: Mapping[str, Any], *, ttl_ms: int) -> None:
        """Say that an instance of a service lives, with JSON-able details; gone when `ttl_ms` passes."""

    async def leave(self, service: str, instance: str) -> None:
        """Say that it stopped on purpose."""

    async def present(self) -> dict[str, dict[str, dict[str, Any]]]:
        """service → instance → info (with `beat_at_ms`), of every instance whose beat has not expired."""


class Store(
    SampleSink,
    SampleSource,
    TimeSource,
    OperatorKeys,
    DecisionLog,
    Leadership,
    Acts,
    Inbox,
    Mixes,
    Nudges,
    Outcomes,
    PickShare,
    Presence,
    Rollouts,
    Targets,
    Protocol,
):
    """Everything, as one object: what RedisStore and MemoryStore implement."""

    async def ping(self) -> None:
        """Return when the store answers and takes writes; raise a StoreError otherwise."""

    async def close(self) -> None:
        """Release connections. The store cannot be used afterwards."""

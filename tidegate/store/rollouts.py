"""Rollouts and the history of splits in Redis.

rollout:{model}         hash: what operators write and the command line on their behalf
                          to from steps hold max_error_rate max_p95_ratio min_requests max_silence, as
                          docs/rollouts.md describes
                          order     pause, resume, abort, promote or finish; goes once it is carried out
                        and what the controller writes
                          state     JSON, `course.State`
                          figures   JSON, `evidence.Evidence`
rollouts                hash: model → when its rollout began, in Unix milliseconds, 0 once it was deleted. Where this
                        is gone too, Redis was emptied
split_history:{model}   stream: at_ms, why, versions (JSON: cluster → what `tidegate split show --json` tells of it)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidegate.domain.rollout.course import State
from tidegate.domain.rollout.evidence import Evidence
from tidegate.store.fields import count, text

ROLLOUTS: Final = "rollouts"
STATE: Final = "state"
FIGURES: Final = "figures"
ORDER: Final = "order"
HISTORY_KEPT: Final = 2_000

_encoder: Final = msgspec.json.Encoder()
_state: Final = msgspec.json.Decoder(State)
_evidence: Final = msgspec.json.Decoder(Evidence)
_versions: Final = msgspec.json.Decoder(dict[str, dict[str, Any]])


def rollout_key(model: str) -> str:
    """`rollout:{model}`, without the prefix."""
    return f"rollout:{model}"


def split_history_key(model: str) -> str:
    """`split_history:{model}`, without the prefix."""
    return f"split_history:{model}"


def encode_state(state: State) -> str:
    """The field `state`."""
    return _encoder.encode(state).decode()


def decode_state(raw: str | None) -> State | None:
    """The state; None where there is none, or where it cannot be read."""
    try:
        return _state.decode(raw) if raw else None
    except msgspec.DecodeError:
        return None


def encode_evidence(evidence: Evidence) -> str:
    """The field `figures`."""
    return _encoder.encode(evidence).decode()


def decode_evidence(raw: str | None) -> Evidence:
    """The evidence; empty where there is none, or where it cannot be read."""
    try:
        return _evidence.decode(raw) if raw else Evidence()
    except msgspec.DecodeError:
        return Evidence()


class SplitLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a split's history: by version, what `tidegate split show` told of it at that moment."""

    at_ms: int
    why: str
    versions: dict[str, dict[str, Any]]

    def fields(self) -> list[str | int]:
        """Names and values of the stream's entry."""
        return ["at_ms", self.at_ms, "why", self.why, "versions", _encoder.encode(self.versions).decode()]


def decode_line(reply: Mapping[bytes, bytes]) -> SplitLine | None:
    """A line; None for what is none."""
    try:
        versions = _versions.decode(reply.get(b"versions", b""))
    except msgspec.DecodeError:
        return None
    return SplitLine(at_ms=count(reply.get(b"at_ms")) or 0, why=text(reply.get(b"why", b"")), versions=versions)

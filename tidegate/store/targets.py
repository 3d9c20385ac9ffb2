"""Replica targets in the hash `scale:{cluster}`, and back.

desired reason since_ms why                       what the cluster should have
automatic automatic_{reason, since_ms, why}       what its load alone asks for; it stays beneath orders and alerts
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.domain.scaling.rule import Course, Reason, Target
from tidegate.store.fields import count, word


def encode_course(course: Course) -> dict[str, str | int]:
    """The whole hash."""
    return {**_encoded(course.target, "desired", ""), **_encoded(course.automatic, "automatic", "automatic_")}


def decode_course(reply: Mapping[bytes, bytes]) -> Course | None:
    """The course, as if nothing had begun to hold; None without a number.

    Without an automatic number, it is the target's.
    """
    target = _decoded(reply, "desired", "")
    if target is None:
        return None
    return Course(target=target, automatic=_decoded(reply, "automatic", "automatic_") or target)


def _encoded(target: Target, number: str, prefix: str) -> dict[str, str | int]:
    return {
        number: target.desired,
        f"{prefix}reason": target.reason.value,
        f"{prefix}since_ms": target.since_ms,
        f"{prefix}why": target.why,
    }


def _decoded(reply: Mapping[bytes, bytes], number: str, prefix: str) -> Target | None:
    desired = count(reply.get(number.encode()))
    if desired is None:
        return None
    return Target(
        desired=desired,
        reason=_reason(reply.get(f"{prefix}reason".encode())),
        since_ms=count(reply.get(f"{prefix}since_ms".encode())) or 0,
        why=word(reply.get(f"{prefix}why".encode())) or "",
    )


def _reason(raw: bytes | None) -> Reason:
    try:
        return Reason(word(raw) or "")
    except ValueError:
        return Reason.OBSERVED

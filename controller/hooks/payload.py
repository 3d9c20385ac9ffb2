"""What Alertmanager, Grafana and release pipelines send. Pure: bytes in, values out.

Both alerting webhooks have `alerts`, each with `status`, `labels` and two times; what else they have differs between
versions and is not read. Sources: Alertmanager's documentation, `webhook_config`; Grafana's, "Configure the webhook
notifier" and "Annotations HTTP API".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

ALERT_NAME: Final = "alertname"
SKEW_MS: Final = 300_000
"""How far in the future an alert may have begun: its clock may be wrong, and a wrong time outranks right ones."""
MOST_ALERTS: Final = 1_000
"""Of one webhook: as many as the leader remembers. Alertmanager's `max_alerts` bounds what it sends."""
_LONGEST_ID: Final = 128
_FIRST_MS: Final = 10**11
"""No release is older, and seconds that were meant as milliseconds are less until the year 5138."""

_decoder: Final = msgspec.json.Decoder()


class Garbage(ValueError):  # noqa: N818 - what the body is
    """A body that says nothing. The text is half a sentence."""


class TooMany(Garbage):
    """A body with more alerts than anybody looks at."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `starts_ms` is Unix milliseconds, 0 where it does not say, or says something impossible.

    `ended_ms` is when it was resolved, no earlier than it began; None while it fires.
    """

    name: str
    labels: Mapping[str, str]
    starts_ms: int
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class Annotation:
    """A window from `from_ms` to `until_ms` (None: open). `updated_ms` is 0 where it does not say."""

    ident: str
    from_ms: int
    until_ms: int | None
    updated_ms: int
    tags: tuple[str, ...]
    labels: Mapping[str, str]


def read_alerts(body: bytes, now_ms: int) -> list[Alert]:
    """The alerts of a webhook. Raises Garbage, where one of them is no alert too, and TooMany."""
    said = _object(body)
    alerts = said.get("alerts")
    if not isinstance(alerts, list) or not alerts:
        raise Garbage("there are no `alerts`")
    if len(alerts) > MOST_ALERTS:
        raise TooMany(f"there are {len(alerts)} alerts, more than {MOST_ALERTS}: see Alertmanager's `max_alerts`")
    return [_alert(one, said.get("status"), now_ms) for one in alerts]


def _alert(said: Any, of_all: Any, now_ms: int) -> Alert:
    labels = said.get("labels") if isinstance(said, dict) else None
    if not isinstance(labels, dict):
        raise Garbage("an alert has no `labels`")
    named = {name: value for name, value in labels.items() if isinstance(value, str)}
    status = said.get("status", of_all)
    if status not in ("firing", "resolved"):  # a tuple: what came may be unhashable
        raise Garbage("an alert's `status` is neither firing nor resolved")
    starts_ms = _time_ms(said.get("startsAt"), now_ms)
    ended_ms = max(starts_ms, min(_time_ms(said.get("endsAt"), now_ms), now_ms)) if status == "resolved" else None
    return Alert(named.get(ALERT_NAME, ""), named, starts_ms, ended_ms)


def _time_ms(said: Any, now_ms: int) -> int:
    """RFC 3339 as Unix milliseconds; 0 for what is none, is Go's zero time, or lies in the future."""
    try:
        at = datetime.fromisoformat(said) if isinstance(said, str) else None
        at_ms = int(at.timestamp() * 1000) if at is not None and at.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return 0
    return at_ms if 0 < at_ms <= now_ms + SKEW_MS else 0


def read_annotation(body: bytes, now_ms: int) -> Annotation:
    """An annotation as Grafana's API writes it. Raises Garbage."""
    said = _object(body)
    tags = said.get("tags")
    if not isinstance(tags, list) or not tags or not all(isinstance(tag, str) for tag in tags):
        raise Garbage("the annotation has no `tags`")
    from_ms = _whole(said.get("time"))
    if from_ms < _FIRST_MS:
        raise Garbage("the annotation has no `time`, in Unix milliseconds")
    until_ms = _whole(said.get("timeEnd")) or None
    if until_ms is not None and until_ms < from_ms:
        raise Garbage("the annotation ends before it begins")
    updated_ms = _whole(said.get("updated"))
    return Annotation(
        ident=_ident(said, from_ms, tags),
        from_ms=from_ms,
        until_ms=until_ms if until_ms != from_ms else None,
        updated_ms=updated_ms if updated_ms <= now_ms + SKEW_MS else 0,
        tags=tuple(tags),
        labels=dict(_pair(tag) for tag in tags),
    )


def annotation_id(said: Any) -> str:
    """An annotation's identifier as it stands in a path or a body. Raises Garbage."""
    text = str(said) if isinstance(said, int | str) and not isinstance(said, bool) else ""
    if not 0 < len(text) <= _LONGEST_ID or not text.isprintable():
        raise Garbage("the annotation's `id` is neither a number nor a short text")
    return text


def _ident(said: Mapping[str, Any], from_ms: int, tags: list[str]) -> str:
    if said.get("id") not in (None, 0):  # 0: one that Grafana has not given an identifier yet
        return annotation_id(said["id"])
    text = said.get("text")
    parts = (str(from_ms), *sorted(tags), text if isinstance(text, str) else "")
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _pair(tag: str) -> tuple[str, str]:
    """`cluster:phi-3` and `cluster=phi-3` as a label; any other tag as one without a value."""
    at = min((index for index in (tag.find(":"), tag.find("=")) if index > 0), default=len(tag))
    return tag[:at].strip(), tag[at + 1 :].strip()


def _whole(said: Any) -> int:
    """A time in milliseconds; 0 for anything else. Grafana's are whole, some pipelines write 1.7e12."""
    number = isinstance(said, int | float) and not isinstance(said, bool)
    return int(said) if number and 0 < said < 1e14 else 0


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Garbage("it is no JSON") from None
    if not isinstance(said, dict):
        raise Garbage("it is no JSON object")
    return said

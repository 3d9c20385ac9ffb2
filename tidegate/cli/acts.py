"""Acts as `tidegate status` and `tidegate actions` tell them."""

from __future__ import annotations

from typing import Any

from tidegate.domain.actions.act import Act
from tidegate.domain.lifetime import time_text


def actions_values(acts: list[Act]) -> list[dict[str, Any]]:
    """Acts in the shape of `tidegate status --json`, the oldest first."""
    return [
        {
            "id": act.id,
            "kind": str(act.deed.kind),
            "target": act.deed.target,
            "value": act.deed.value,
            "rule": act.rule,
            "alert": act.cause,
            "since_ms": act.since_ms,
            "until_ms": act.until_ms,
            "dry_run": act.dry_run,
        }
        for act in sorted(acts, key=lambda one: (one.since_ms, one.id))
    ]


def action_line(act: dict[str, Any]) -> str:
    """One act of `actions_values` for `tidegate status`."""
    until = f" until {time_text(act['until_ms'])}" if act["until_ms"] is not None else ""
    value = f" {act['value']}" if act["value"] else ""
    dry = "; dry run: nothing is done" if act["dry_run"] else ""
    return f"{act['kind']} {act['target']}{value}{until}: {act['alert']}, rule {act['rule']}, act {act['id']}{dry}"

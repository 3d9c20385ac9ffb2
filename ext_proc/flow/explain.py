"""Why a request went where it went, in one line for a header and for the log.

10.0.0.5:8000 cost=0.31 wait=0.21 prefill=0.1; 10.0.0.6:8000 cost=0.44 wait=0.4 prefill=0.04; waited=0.05
"""

from __future__ import annotations

from typing import Any

from tidegate.domain.pick.verdict import Pick, Scored


def explanation(pick: Pick, waited_ms: int) -> str:
    """The replica that was chosen, the runner-up, their costs and the terms in seconds, and how long it waited.

    Without a choice, the verdict stands in its place. ASCII, without line breaks.
    """
    said = [_line(one) for one in pick.chosen] or [str(pick.verdict)]
    return "; ".join([*said, f"waited={_figure(waited_ms / 1000)}"])


def fields(pick: Pick, waited_ms: int) -> dict[str, Any]:
    """The same for a log."""
    names = ("chosen", "runner_up")
    scored = {name: _line(one) for name, one in zip(names, pick.chosen, strict=False)}
    return {"verdict": str(pick.verdict), **scored, "waited_ms": waited_ms}


def _line(one: Scored) -> str:
    parts = (f"{name}={_figure(seconds)}" for name, seconds in one.parts.items())
    return " ".join([one.address, f"cost={_figure(one.cost)}", *parts])


def _figure(seconds: float) -> str:
    return f"{seconds:.3g}"

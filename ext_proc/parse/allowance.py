"""What a prompt's walk may cost: one allowance, in which each part costs what it takes to read."""

from __future__ import annotations

from typing import Final

from tidegate.domain.refusal import Reason, Refusal

MOST_PARTS: Final = 40_000
MOST_PROMPTS: Final = 120_000
MOST_TOOLS: Final = 20_000
"""Messages and parts, prompts, or tools that a request may have; a walk over them takes some 30 ms.

They share one allowance of MOST_PROMPTS: half as many tools leave half as many prompts.
"""

PART_COST: Final = MOST_PROMPTS // MOST_PARTS
TOOL_COST: Final = MOST_PROMPTS // MOST_TOOLS
CONVERSATION_COST: Final = 8
CALL_COST: Final = 8
NESTED_COST: Final = 2
DOCUMENT_COST: Final = 12
MEDIA_COST: Final = 24


def too_much() -> Refusal:
    """The refusal of a prompt beyond the allowance."""
    message = (
        f"The body has too many messages, parts, prompts or tools: at most {MOST_PARTS} messages and parts, "
        f"{MOST_PROMPTS} prompts or {MOST_TOOLS} tools are read, and fewer of each where they come together."
    )
    return Refusal(Reason.INVALID_REQUEST, message)

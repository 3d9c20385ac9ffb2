"""A dispatch in the form in which several ext_proc processes tell it one another."""

from __future__ import annotations

import msgspec


class DispatchRecord(msgspec.Struct, frozen=True, array_like=True):
    """One dispatch to `address` at `at_ms` (Unix milliseconds).

    prefill_tokens  to be prefilled, at least 0
    kv_tokens       held at its end
    prompts         that the engine counts for it, at least 1
    marks, ends     as in `Work`
    """

    address: str
    at_ms: float
    prefill_tokens: float
    kv_tokens: int
    prompts: int = 1
    marks: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

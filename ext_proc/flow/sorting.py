"""Class, priority and user of a request: from its headers, its body and the file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidegate.domain.flow.classes import Classes, RequestClass, priority_of
from tidegate.domain.matching import Asked
from tidegate.domain.request import RequestInfo
from tidegate.domain.wire import CLASS_HEADER, PRIORITY_HEADER

Header = Callable[[str], str | None]


class Sorted(msgspec.Struct, frozen=True):
    """How a request queues."""

    group: RequestClass
    priority: int
    user: str


def sort(classes: Classes, info: RequestInfo, prompt_tokens: int, header: Header) -> Sorted:
    """`header` gives a header's value by its lower-case name. Requests without a user share one place."""
    group = classes.only
    if group is None:
        names = () if info.model is None else (info.model,)
        group = classes.of(Asked(info, names, prompt_tokens, header), header(CLASS_HEADER))
    return Sorted(group, priority_of(header(PRIORITY_HEADER), info.priority, group.priority), info.user or "")

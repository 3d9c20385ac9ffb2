"""Client → engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.body import PATH
from bench.scenario import Target
from bench.upstream import Upstream


class Direct:
    """The floor: what the engine and the generator can do."""

    name = "direct"
    about = "client → engine"

    @contextmanager
    def target(self, upstream: Upstream, folder: Path) -> Iterator[Target]:  # noqa: ARG002 - needs no files
        yield Target(f"http://127.0.0.1:{upstream.ports[0]}{PATH}", {"upstream": [upstream.pid]})

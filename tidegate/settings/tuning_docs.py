"""Writes docs/tuning.md from the registry of tunables: `make docs`."""

from __future__ import annotations

from tidegate.domain.tunable import Tunable, plain
from tidegate.domain.tuning import GROUPS, Group

HEAD = """# What operators tune while everything runs

Each name is a field of the Redis hash `tidegate:tune`, which holds for every cluster, or of `tidegate:tune:CLUSTER`,
which wins there. Both roads do the same:

```console
$ tidegate tune set envoy.retries 1 --cluster phi-3
$ redis-cli HSET tidegate:tune:phi-3 envoy.retries 1
```

`tidegate tune unset`, or `HDEL`, returns a tunable to the configuration file's value, where it has one, else to the
default below. A name that does not exist or a value out of range is refused: `tidegate status` and the hash `rejected`
say why, and the last good value stays in force. `tidegate tune list` shows what is in force.
"""


def tuning_page() -> str:
    """The whole page, Markdown."""
    return "\n".join([HEAD, *(_section(group) for group in GROUPS)])


def _section(group: Group) -> str:
    rows = ["| name | default | range | what it does |", "|---|---|---|---|", *map(_row, group.tunables)]
    return "\n".join([f"## {group.title}\n", f"{group.acts}\n", *rows]) + "\n"


def _row(tunable: Tunable) -> str:
    unit = f" {tunable.unit}" if tunable.unit else ""
    doc = tunable.doc if tunable.per_cluster else f"{tunable.doc} (in `tune` alone)"
    return f"| `{tunable.name}` | `{plain(tunable.default)}`{unit} | {tunable.range} | {doc} |"


if __name__ == "__main__":
    print(tuning_page(), end="")  # noqa: T201

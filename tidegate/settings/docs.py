"""Writes docs/settings.md from the settings classes: `make docs`."""

from __future__ import annotations

import socket
from dataclasses import Field, fields
from typing import Any

from tidegate.settings.flags import default_of, env_name
from tidegate.settings.services import (
    AgentSettings,
    EngineSimSettings,
    ExtProcSettings,
    OutcomesSettings,
    ServiceSettings,
    XdsSettings,
)

HEAD = """# Settings of the services

Each service reads flags, then environment variables, then defaults. What describes the cluster stands in the
[configuration file](configuration.md) instead. A variable of the first table may also be written without the
service's name (`TIDEGATE_LOG_LEVEL`), for all services at once. A repeatable flag's variable is split at blanks.
"""


def settings_page() -> str:
    """The whole page, Markdown."""
    common = {f.name for f in fields(ServiceSettings)}
    parts = [HEAD, "## Every service\n", _table(ServiceSettings, "<SERVICE>", only=common)]
    for command, settings in (
        ("xds", XdsSettings),
        ("ext-proc", ExtProcSettings),
        ("outcomes", OutcomesSettings),
        ("agent", AgentSettings),
        ("engine-sim", EngineSimSettings),
    ):
        own = {f.name for f in fields(settings)} - common
        parts += [f"## tidegate {command}\n", _table(settings, settings.SERVICE, only=own)]
    return "\n".join(parts)


def _table(settings: type[ServiceSettings], service: str, *, only: set[str]) -> str:
    rows = ["| flag | environment | default | what it does |", "|---|---|---|---|"]
    rows += [
        f"| `--{f.name.replace('_', '-')}` | {_variables(service, f)} | {_default(default_of(f))} | "
        f"{f.metadata['doc']} |"
        for f in fields(settings)
        if f.name in only
    ]
    return "\n".join(rows) + "\n"


def _variables(service: str, field: Field[Any]) -> str:
    return ", ".join(f"`{name}`" for name in (env_name(service, field.name), *field.metadata["also"]))


def _default(value: Any) -> str:
    if value is None:
        return "–"
    if value == socket.gethostname():
        return "the host's name"
    if isinstance(value, bool):
        return "on" if value else "off"
    return " ".join(f"`{item}`" for item in value) if isinstance(value, list) else f"`{value}`"


if __name__ == "__main__":
    print(settings_page(), end="")  # noqa: T201

"""docker-compose.yml and Dockerfile as values, for the tests that hold them to the rest of the tree."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import typer
import yaml

from tidegate.cli.main import app

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
IMAGE = "tidegate:local"


def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


@dataclass(frozen=True)
class Service:
    """One service of the file."""

    name: str
    spec: dict[str, Any]

    @property
    def is_ours(self) -> bool:
        return self.spec["image"] == IMAGE

    @cached_property
    def words(self) -> list[str]:
        command = self.spec["command"]
        return shlex.split(command) if isinstance(command, str) else command

    @cached_property
    def flags(self) -> dict[str, Any]:
        """The options of one of our commands, as the CLI itself reads them. A flag that it lacks raises."""
        commands = typer.main.get_group(app).commands
        assert self.words[0] in commands, f"tidegate has no subcommand {self.words[0]}"
        return commands[self.words[0]].make_context(self.words[0], self.words[1:]).params

    @property
    def mounts(self) -> list[tuple[str, str]]:
        """(source, target) of each volume."""
        return [tuple(volume.split(":")[:2]) for volume in self.spec.get("volumes", [])]

    @property
    def published(self) -> set[int]:
        """Container ports that the host reaches."""
        return {int(port.rpartition(":")[2]) for port in self.spec.get("ports", [])}

    def host_file(self, target: str) -> Path:
        """The file of the checkout that stands at `target` in the container. KeyError when there is none."""
        return ROOT / {at: source for source, at in self.mounts}[target]


def services() -> dict[str, Service]:
    return {name: Service(name, spec) for name, spec in compose()["services"].items()}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])

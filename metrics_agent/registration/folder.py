"""A folder with one file an engine, looked at again and again.

A file is read once it was left alone for a while, so that one that is being written is not taken for whole. One that
is wrong says so and leaves in force what it said before; one that vanishes takes its engine along.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from metrics_agent.registration.section import target_of
from metrics_agent.targets import Place, Source, Target
from tidegate.settings.config_tree import read_tree

SUFFIXES: Final = (".yaml", ".yml", ".json")
QUIET_SECONDS: Final = 0.4
LARGEST_BYTES: Final = 64 * 1024

Signature = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """What the folder says: engines, by name of their files, and by file what is wrong ("" is the folder itself)."""

    targets: tuple[Target, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _File:
    seen: Signature
    read: Signature | None = None
    target: Target | None = None
    fault: str | None = None
    missed: bool = False


class EngineFolder:
    """Reads `*.yaml`, `*.yml` and `*.json` of `path`; names that begin with a dot are not looked at.

    A file that names another node than `node` is none of ours. `clock` gives Unix seconds, as files are dated.
    """

    def __init__(self, path: Path, node: str = "", clock: Callable[[], float] = time.time) -> None:
        self.path, self._node, self._clock = path, node, clock
        self._files: dict[str, _File] = {}

    def look(self) -> Look:
        """What the folder says at this moment. Blocks for as long as the disk does; call it from one thread at a time.

        A folder that cannot be listed is a fault and changes nothing.
        """
        try:
            found = _list(self.path)
        except OSError as exc:
            return self._said({"": f"the folder cannot be listed: {exc.strerror or exc}"})
        for name, signature in found.items():
            self._see(name, signature)
        self._forget_missing(found)
        return self._said({})

    def _see(self, name: str, signature: Signature) -> None:
        known = self._files.get(name)
        unchanged = known is not None and known.seen == signature
        file = self._files.setdefault(name, _File(signature))
        file.seen, file.missed = signature, False
        quiet = unchanged or self._clock() - signature[0] / 1e9 >= QUIET_SECONDS
        if quiet and file.read != signature:
            self._read(name, file)

    def _read(self, name: str, file: _File) -> None:
        path = self.path / name
        target, fault = _parse(path, self._node)
        if _signature(path) != file.seen:  # written to while it was read: the next look decides
            return
        file.read, file.fault = file.seen, fault
        file.target = target if fault is None else file.target

    def _forget_missing(self, found: Mapping[str, Signature]) -> None:
        """A file is gone at the second look without it: editors replace a file by removing it first."""
        for name in self._files.keys() - found.keys():
            if self._files[name].missed:
                del self._files[name]
            else:
                self._files[name].missed = True

    def _said(self, faults: dict[str, str]) -> Look:
        owners: dict[Place, tuple[str, Target]] = {}
        for name, file in sorted(self._files.items()):
            if file.fault is not None:
                faults[name] = file.fault
            if file.target is not None and file.target.place in owners:
                first, _ = owners[file.target.place]
                faults[name] = f"{file.target.address} of {file.target.cluster} is registered by {first} already"
            elif file.target is not None:
                owners[file.target.place] = (name, file.target)
        return Look(tuple(target for _, target in owners.values()), faults)


def _list(path: Path) -> dict[str, Signature]:
    with os.scandir(path) as entries:
        names = [e.name for e in entries if e.name.endswith(SUFFIXES) and not e.name.startswith(".") and e.is_file()]
    signed = {name: _signature(path / name) for name in names}
    return {name: signature for name, signature in signed.items() if signature is not None}


def _signature(path: Path) -> Signature | None:
    """What changes when a file does; None when it is not there."""
    try:
        said = path.stat()
    except OSError:
        return None
    return said.st_mtime_ns, said.st_size, said.st_ino


def _parse(path: Path, node: str) -> tuple[Target | None, str | None]:
    """The file's engine, or what is wrong with it, with the line."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as exc:
        return None, f"it cannot be read: {exc.strerror or exc}"
    except UnicodeDecodeError as exc:
        return None, f"it is not UTF-8 text (byte {exc.start})"
    if len(raw) > LARGEST_BYTES or not text.strip():
        return None, f"it is larger than {LARGEST_BYTES} bytes" if text.strip() else "it is empty"
    tree = read_tree(text, is_json=path.suffix == ".json")
    target, faults = (None, tree.faults) if tree.faults else target_of(tree, Source.FOLDER, node)
    said = [f"line {fault.line}: {f'{fault.path}: ' if fault.path else ''}{fault.sentence}" for fault in faults]
    return target, "; ".join(said) or None

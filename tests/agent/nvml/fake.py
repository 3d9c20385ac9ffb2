"""A driver that a test scripts in JSON and that the real binding loads.

`{"cards": [{"uuid", "name", "memory": {"total", "free", "used", "reserved"}, "memory_v1": {"total", "free", "used"},
"utilization", "temperature", "milliwatts", "ecc", "mig_slots", "mig": {slot: {"uuid", "name", "memory", …}},
"processes": [pid, bytes, count]}], "calls": [{"symbol", "place", "code", "from_call", "hang_seconds", "value"}]}`

A card answers what is named there; everything else is NotSupported. `calls` overrules: `place` is "3", "3.1" (MIG) or
"-", `code` an NVML return code, `hang_seconds` -1 for ever, `from_call` the first call that it holds for.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
VARIABLE = "TIDEGATE_FAKE_NVML"
EVER = -1  # hang_seconds
INITS = ("nvmlInit_v2", "nvmlInitWithFlags")


def compiler():
    """A C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path, *flags: str) -> Path:
    """Compile the stand-in into `folder`, which goes on LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", *flags, SOURCE, "-o", folder / LIBRARY]
    subprocess.run(command, check=True)
    return folder


class FakeDriver:
    """The world that the stand-in tells of. `write` changes it at once."""

    def __init__(self, folder: Path):
        self.path = folder / "nvml.script"
        self.log = folder / "nvml.script.log"
        self._hangs = folder / "nvml.script.hangs"
        self.write({})

    def write(self, script):
        lines = "\n".join(" ".join(map(str, line)) for line in _lines(script))
        fresh = self.path.with_suffix(".fresh")
        fresh.write_text(lines + "\n")
        fresh.replace(self.path)

    def calls(self):
        """Calls so far by (symbol, place)."""
        log = self.log.read_text() if self.log.exists() else ""
        return Counter(tuple(line.split()[1:]) for line in log.splitlines())

    def count(self, *symbols):
        """Calls so far of any of these symbols, at any place."""
        return sum(count for (symbol, _), count in self.calls().items() if symbol in symbols)

    def hangs(self, symbol):
        """How many calls of this symbol came to hang, be it for a while."""
        log = self._hangs.read_text() if self._hangs.exists() else ""
        return sum(line.split()[1] == symbol for line in log.splitlines())

    def pids(self):
        """Processes that have called the driver."""
        log = self.log.read_text() if self.log.exists() else ""
        return {int(line.split()[0]) for line in log.splitlines()}


def _lines(script):
    """(symbol, place, from_call, code, hang_seconds, values) in the order of precedence."""
    answers = {(symbol, place): values for symbol, place, *values in _answers(script)}
    for (symbol, place), values in answers.items():
        yield symbol, place, 1, 0, 0, *values
    for call in script.get("calls", ()):
        symbol, place = call["symbol"], call.get("place", "-")
        value = call.get("value", answers.get((symbol, place), ()))
        yield symbol, place, call.get("from_call", 1), call.get("code", 0), call.get("hang_seconds", 0), *value


def _answers(script):
    cards = script.get("cards", ())
    for symbol in (*INITS, "nvmlShutdown"):
        yield symbol, "-"
    yield "nvmlDeviceGetCount_v2", "-", script.get("count", len(cards))
    for index, card in enumerate(cards):
        yield "nvmlDeviceGetHandleByIndex_v2", str(index)
        yield from _device(str(index), card)
        if "mig" in card:
            yield from _mig(index, card)


def _mig(index, card):
    yield "nvmlDeviceGetMigMode", str(index), 1, 1
    yield "nvmlDeviceGetMaxMigDeviceCount", str(index), card.get("mig_slots", 7)
    for slot, device in card["mig"].items():
        yield "nvmlDeviceGetMigDeviceHandleByIndex", f"{index}.{slot}"
        yield from _device(f"{index}.{slot}", device)


def _device(place, card):
    if "memory" in card:
        memory = {"reserved": 0} | card["memory"]
        yield "nvmlDeviceGetMemoryInfo_v2", place, *(memory[n] for n in ("total", "reserved", "free", "used"))
        yield "nvmlDeviceGetMemoryInfo", place, *(memory[n] for n in ("total", "free", "used"))
    if "memory_v1" in card:
        yield "nvmlDeviceGetMemoryInfo", place, *(card["memory_v1"][n] for n in ("total", "free", "used"))
    for name, symbol in SYMBOLS.items():
        if name in card:
            value = card[name]
            yield symbol, place, *(value if isinstance(value, list) else [value])


SYMBOLS = {
    "uuid": "nvmlDeviceGetUUID",
    "name": "nvmlDeviceGetName",
    "utilization": "nvmlDeviceGetUtilizationRates",
    "temperature": "nvmlDeviceGetTemperature",
    "milliwatts": "nvmlDeviceGetPowerUsage",
    "ecc": "nvmlDeviceGetTotalEccErrors",
    "processes": "nvmlDeviceGetComputeRunningProcesses_v3",
}

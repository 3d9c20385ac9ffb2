"""The task that keeps what the folder says in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from metrics_agent.instruments import Instruments
from metrics_agent.registration.folder import EngineFolder
from metrics_agent.targets import Target, each_once

LOOK_EVERY_SECONDS: Final = 0.5

log = structlog.get_logger("metrics_agent.registration")


class FolderFollower:
    """Hands `fixed` and the folder's engines, each place once, to `watch` as they change."""

    def __init__(
        self,
        folder: EngineFolder,
        fixed: Sequence[Target],
        watch: Callable[[Sequence[Target]], None],
        instruments: Instruments,
    ) -> None:
        self._folder, self._fixed, self._watch, self._instruments = folder, fixed, watch, instruments
        self._faults: Mapping[str, str] = {}

    async def run(self) -> None:
        """Look twice a second until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Look once, beside the event loop: a disk may hang."""
        said = await asyncio.to_thread(self._folder.look)
        self._tell(said.faults)
        self._watch(each_once([*self._fixed, *said.targets]))

    def _tell(self, faults: Mapping[str, str]) -> None:
        """Log each fault once, and its end."""
        for name, fault in faults.items():
            if self._faults.get(name) != fault:
                log.warning("engine file is not accepted", file=str(self._folder.path / name), fault=fault)
        for name in self._faults.keys() - faults.keys():
            log.info("engine file is in order", file=str(self._folder.path / name))
        self._faults = dict(faults)
        self._instruments.bad_engine_files.set(len(faults))

"""The scheduler's file, read again when it changes: a good one is put into force, a bad one is told and left.

It is looked at every few seconds, by its content: a ConfigMap in a volume is changed by exchanging links,
which no time of modification tells reliably. What is wrong is said once, with file, line, column and field.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from corewise.kube.clock import Clock
from corewise.policy.decoding import Parsed
from corewise.policy.reasons import Reason
from corewise.scheduler.configuration import SchedulerConfiguration, read_configuration
from corewise.service.logs import fields

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
_LARGEST = 16 * 1024 * 1024
_STAYS = "the configuration of before stays in force"


class ConfigurationFile:
    """The file, and what it held last. ``is_valid``: whether that is in force."""

    def __init__(self, path: str, apply: Callable[[SchedulerConfiguration], None]) -> None:
        self._path = Path(path)
        self._apply = apply
        self._held: str | None = None
        self._wrong = ""
        self.is_valid = True

    async def follow(self, clock: Clock, beat: Callable[[], None]) -> None:
        """Look again and again until cancelled."""
        while True:
            beat()
            await self.look()
            await clock.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Read the file; if it has changed and is good, put it into force."""
        try:
            text = await asyncio.to_thread(self._read)
        except (OSError, UnicodeDecodeError) as error:
            self._tell(f"{self._path} cannot be read: {error}")
            return
        if text != self._held or self._wrong:
            self._held, self._wrong = text, ""
            self._take(read_configuration(text))

    def _take(self, parsed: Parsed[SchedulerConfiguration]) -> None:
        for each in parsed.warnings:
            log.warning("%s: %s", self._path, each)
        for each in parsed.errors:
            reason = fields(reason=Reason.CONFIG_INVALID)
            log.error("%s: %s; %s", self._path, each, _STAYS, extra=reason)
        self.is_valid = parsed.value is not None
        if parsed.value is not None:
            self._apply(parsed.value)
            log.info("configuration applied", extra=fields(reason=Reason.CONFIG_APPLIED, file=self._path))

    def _tell(self, wrong: str) -> None:
        """Say that there is no file to be read, once as long as it stays so."""
        self.is_valid = False
        if wrong != self._wrong:
            self._wrong = wrong
            log.error("%s; %s", wrong, _STAYS, extra=fields(reason=Reason.CONFIG_INVALID))

    def _read(self) -> str:
        with self._path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8-sig")

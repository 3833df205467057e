"""The file that ``--config`` names: how the scheduler scores, how much it remembers, and interference.

YAML or JSON::

    scoring: MostAllocated      # or LeastAllocated, which is the default
    rememberedDecisions: 100    # of the latest; 0 to 1000
    normalizeCPUSet: true       # new pods that own CPUs own normalized ones, unless a label says otherwise
    interference: {...}         # docs/guides/interference-configuration.md; else Prometheus is not used

A key that is unknown is an error, so that a typing mistake is not the default. Every error names its line,
column and field.

While the scheduler runs, the file is read again every few seconds, and compared by its content: a ConfigMap
in a volume is changed by exchanging links, which no modification time shows reliably. A file without errors
is tried before it is applied: its queries are sent. If one fails, the previous configuration stays, and the
file is tried again from time to time, since what the query asks for may have appeared by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from corewise.config.decoding import Decoder, Parsed, either
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import (
    NORMALIZE,
    REMEMBERED,
    SCHEDULER_KEYS,
    SCORING,
    read_interference,
)
from corewise.config.yaml_text import read_yaml
from corewise.engine import Allocation
from corewise.kube.clock import Clock, to_beat
from corewise.service.logs import fields
from corewise.service.reader import in_reader
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)

_MOST_REMEMBERED = 1000


class _Scoring(StrEnum):
    LEAST = Allocation.LEAST.value
    MOST = Allocation.MOST.value


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """The content of the file.

    A decision takes about 80 bytes a node while it is remembered, 170 with interference.
    """

    scoring: Allocation = Allocation.LEAST
    remembered_decisions: int = 50
    interference: InterferenceConfiguration | None = None
    normalize_cpuset: bool = False


DEFAULTS = SchedulerConfiguration()


class SchedulerConfigurationError(ValueError):
    """The file's text is not a configuration; the message says where and why, one line for each error."""


def parse_configuration(text: str) -> SchedulerConfiguration:
    """Read the file's text; an empty one is the defaults.

    Raises:
        SchedulerConfigurationError: if it cannot be read or has a bad value.
    """
    parsed = read_configuration(text)
    if parsed.value is None:
        raise SchedulerConfigurationError("\n".join(str(each) for each in parsed.errors))
    return parsed.value


def read_configuration(text: str) -> Parsed[SchedulerConfiguration]:
    """Read the file's text, with every problem told."""
    decoder = Decoder(read_yaml(text), strict=True)
    root = decoder.fields(decoder.root, SCHEDULER_KEYS)
    scoring = decoder.choice(root[SCORING], _Scoring)
    remembered = decoder.whole(root[REMEMBERED], 0, _MOST_REMEMBERED)
    configuration = SchedulerConfiguration(
        scoring=Allocation(scoring.value) if scoring else DEFAULTS.scoring,
        remembered_decisions=either(remembered, DEFAULTS.remembered_decisions),
        interference=read_interference(decoder, root),
        normalize_cpuset=bool(decoder.flag(root[NORMALIZE])),
    )
    return decoder.finish(configuration)


LOOK_EVERY = 5.0
_LARGEST = 16 * 1024 * 1024
_TRY_AGAIN_AFTER = 6
"""Looks, after which a file is tried again that failed to be tried."""

_STAYS = "the scheduler keeps the previous configuration"
_IN_USE = "the scheduler uses it already, and goes on with it"

Vet = Callable[[SchedulerConfiguration], Awaitable[list[str]]]


async def _trusted(_: SchedulerConfiguration) -> list[str]:
    return []


class ConfigurationFile:
    """The file, and its last content. ``is_valid``: whether that has no errors, and is applied.

    ``vet`` tries a configuration and says what is wrong with it; ``applied`` is the one that the program
    started with.
    """

    def __init__(
        self,
        path: str,
        apply: Callable[[SchedulerConfiguration], None],
        vet: Vet = _trusted,
        applied: SchedulerConfiguration = DEFAULTS,
    ) -> None:
        self._path = Path(path)
        self._apply = apply
        self._vet = vet
        self._applied = applied
        self._held: str | None = None
        self._wrong = ""
        self._faults: list[str] = []
        self._looks_until_tried = 0
        self.is_valid = True

    async def follow(self, clock: Clock, beat: Callable[[], None]) -> None:
        """Look again and again until canceled."""
        while True:
            beat()
            await self.look()
            await clock.sleep(to_beat(clock, LOOK_EVERY))

    async def look(self) -> None:
        """Read the file; if it has changed and is valid, apply it."""
        try:
            text = await asyncio.to_thread(self._read)
        except (OSError, UnicodeDecodeError) as error:
            self._tell(f"{self._path} cannot be read: {error}")
            return
        if text != self._held or self._wrong:
            self._held, self._wrong, self._faults = text, "", []
            await self._take(await in_reader(partial(read_configuration, text)))
        elif self._faults:
            self._looks_until_tried -= 1
            if self._looks_until_tried <= 0:
                parsed = await in_reader(partial(read_configuration, text))
                await self._try(parsed.value)

    async def _take(self, parsed: Parsed[SchedulerConfiguration]) -> None:
        for each in parsed.warnings:
            log.warning("%s: %s", self._path, each)
        self._report([str(each) for each in parsed.errors], _STAYS)
        self.is_valid = parsed.value is not None
        await self._try(parsed.value)

    async def _try(self, configuration: SchedulerConfiguration | None) -> None:
        """Apply a configuration, unless trying it finds it wrong."""
        if configuration is None:
            return
        faults = await self._vet(configuration)
        if faults != self._faults:
            self._report(faults, _IN_USE if configuration == self._applied else _STAYS)
        self._faults, self._looks_until_tried = faults, _TRY_AGAIN_AFTER
        self.is_valid = not faults
        if not faults:
            self._apply(configuration)
            self._applied = configuration
            log.info("configuration applied", extra=fields(reason=Reason.CONFIG_APPLIED, file=self._path))

    def _report(self, faults: list[str], what_holds: str) -> None:
        for each in faults:
            reason = fields(reason=Reason.CONFIG_INVALID)
            log.error("%s: %s; %s", self._path, each, what_holds, extra=reason)

    def _tell(self, wrong: str) -> None:
        """Say that there is no file to be read, once as long as it stays so."""
        self.is_valid = False
        if wrong != self._wrong:
            self._wrong = wrong
            log.error("%s; %s", wrong, _STAYS, extra=fields(reason=Reason.CONFIG_INVALID))

    def _read(self) -> str:
        with self._path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8-sig")


_BEAT_LIMIT = 120.0
_OBSERVER, _FILE = "prometheus", "configuration-file"

"""The owners of cgroups' settings, the values to restore, and settings' files and values in normal form.

=============  ======================  ======================================================================
setting        file (v1, v2)           form
=============  ======================  ======================================================================
CPU_WEIGHT     cpu.shares, cpu.weight  a number; v1 takes one beyond 2..262144 for the nearest of them
CPU_IDLE       cpu.idle                0 or 1
CPUSET         cpuset.cpus             ranges, ascending
MEMORY_NODES   cpuset.mems             likewise
MEMORY_LIMIT   memory.limit_in_bytes,  whole pages; without a limit "-1" on v1, which shows it as a number
               memory.max              just below 2^63, and "max" on v2
=============  ======================  ======================================================================

A setting has one owner at a time. Its base is what the owner stated, or else what was found before the first
write; and if somebody else writes meanwhile, what they wrote, for that is what they want there without us:
kubelet moves the CPU sets of its containers, and changes weights when a pod is resized.

An idle cgroup has no weight (:data:`NO_WEIGHT`): the number in its file counts for nothing. Its weight is
written when it is idle no more.

A setting without an owner is on its way back to its base, or was found in the way of a narrower parent (v1).

Source: kernel/sched/core.c (sched_group_set_shares), mm/page_counter.c (page_counter_memparse).
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from corewise.actions import Setting, WriteSetting
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import IDLE_FILE, limit_file, weight_file
from corewise.kernel.writing.entries import HeldSetting, JournalLine, still_held
from corewise.kernel.writing.journaled_writer import Writing
from corewise.topology import CPUSet

LISTS = frozenset({Setting.CPUSET, Setting.MEMORY_NODES})
"""Settings that are sets: on v1 a cgroup's is within its parent's."""

NO_WEIGHT = "none: idle"
"""The weight of an idle cgroup, whatever its file shows."""

_WEIGHTS = frozenset(weight_file(version) for version in Version)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_LIMIT = (1 << 63) // _PAGE * _PAGE - _PAGE
_NUMBER = re.compile(r"[0-9]{1,20}")
_LEAST_SHARES, _MOST_SHARES = 2, 1 << 18


def setting_file(version: Version, setting: Setting) -> str:
    """Return the file that holds a setting."""
    match setting:
        case Setting.CPU_WEIGHT:
            return weight_file(version)
        case Setting.CPU_IDLE:
            return IDLE_FILE
        case Setting.CPUSET:
            return "cpuset.cpus"
        case Setting.MEMORY_NODES:
            return "cpuset.mems"
        case Setting.MEMORY_LIMIT:
            return limit_file(version)


def setting_in(version: Version, file: str) -> Setting | None:
    """Return the setting that a file holds."""
    return next((setting for setting in Setting if setting_file(version, setting) == file), None)


def normal(version: Version, setting: Setting, text: str) -> str:
    """Return a value as it is written and compared.

    Raises:
        ValueError: if it is none.
    """
    if setting in LISTS:
        return list_of(cpus_in(text))
    if setting is Setting.MEMORY_LIMIT:
        return _limit(version, text)
    number = _number(text)
    if setting is Setting.CPU_IDLE and number > 1:
        raise ValueError(f"{text[:80]!r} is neither 0 nor 1")
    if setting is Setting.CPU_WEIGHT and version is Version.V1:
        number = min(max(number, _LEAST_SHARES), _MOST_SHARES)
    return str(number)


@lru_cache(maxsize=1024)
def cpus_in(text: str) -> CPUSet:
    """Return the set that a list names; of hundreds of cgroups most have one of a few.

    Raises:
        CPUSetError: if it is not a list.
    """
    return CPUSet.parse(text)


@lru_cache(maxsize=1024)
def list_of(cpus: CPUSet) -> str:
    """Return a set as a list."""
    return str(cpus)


def bytes_of(limit: str) -> int | None:
    """Return a memory limit in its normal form as a number; None: no limit."""
    return int(limit) if limit.isdigit() else None


def _limit(version: Version, text: str) -> str:
    whole = None if text in {"max", "-1"} else _number(text) // _PAGE * _PAGE
    if whole is None or whole >= _NO_LIMIT:
        return "max" if version is Version.V2 else "-1"
    return str(whole)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a number")
    return int(text)


class SettingFile(NamedTuple):
    """One file of a cgroup."""

    cgroup: str
    file: str

    def __str__(self) -> str:
        return f"{self.cgroup}/{self.file}"


@dataclass(slots=True)
class SettingClaim:
    """One setting of a cgroup, its texts in their normal form.

    ``base`` is None until it is read. ``value`` is what ``owner`` wants, for ``reason``; None is the base.
    ``wrote``, ``refused``, ``entered`` and ``changed`` are as in :class:`JournaledClaim`, ``unsure`` as in
    :class:`Held`.
    """

    base: str | None = None
    stated: bool = False
    owner: str = ""
    value: str | None = None
    cause: WriteSetting | None = None
    reason: str = ""
    wrote: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: Writing | None = None
    entered: bool = False
    changed: bool = True
    unsure: bool = False

    def set_by(self, action: WriteSetting, value: str, base: str | None) -> None:
        stated = base is not None
        wanted = (action.owner, value, stated, base if stated else self.base)
        if wanted != (self.owner, self.value, self.stated, self.base):
            self.owner, self.value, self.stated, self.base = wanted
            self.changed = True
        if action.reason != self.reason:
            self.reason, self.changed = action.reason, True
        self.cause = action

    def release(self) -> None:
        self.changed = self.changed or bool(self.owner)
        self.owner, self.value, self.cause, self.reason = "", None, None, ""

    def is_foreign(self, file: str, text: str) -> bool:
        """Whether somebody else wrote what the file shows."""
        found = () if self.stated or self.base is None or self.unsure else (self.base,)
        ours = self.wrote.get(file, found)
        return bool(ours) and text not in ours

    def read(self, file: str, text: str) -> None:
        """Take note of what the file shows: it may be the base."""
        if not self.stated and (self.base is None or self.is_foreign(file, text)):
            self.changed = self.changed or self.base != text
            self.base = text

    @property
    def wanted(self) -> str | None:
        """The value the file should have; None while the base is not known."""
        return self.base if self.value is None else self.value

    def at_rest(self, aim: str) -> bool:
        """Whether no owner sets this any more and it has its base."""
        return self.value is None and aim == self.base

    def entry(self, place: SettingFile, time: float) -> HeldSetting:
        base = self.base or ""
        return HeldSetting(time, *place, base, self.value, self.owner, self.stated, reason=self.reason)


class SettingClaims(dict[SettingFile, SettingClaim]):
    """All claims, by cgroup and file: the writer's memory, rebuilt from its journal."""

    @classmethod
    def of(cls, entries: Iterable[JournalLine]) -> SettingClaims:
        held = (each for each in still_held(entries) if isinstance(each, HeldSetting))
        return cls({SettingFile(each.cgroup, each.file): _claim_of(each) for each in held})

    def release(self, owner: str, *, but: Container[SettingFile]) -> None:
        """Drop what an owner wants of everything but these."""
        for place, claim in self.items():
            if claim.owner == owner and place not in but:
                claim.release()

    def due(self, written: Container[SettingFile]) -> dict[SettingFile, SettingClaim]:
        """Return the claims to journal: the changed ones among these and those journaled before.

        A setting that has the wanted value already but another base counts too: the base must be restored.
        So does the weight of a cgroup that is to be idle: the kernel resets it when that ends.
        """
        return {
            place: claim
            for place, claim in self.items()
            if claim.changed
            and claim.base is not None
            and (
                claim.entered
                or place in written
                or claim.wanted != claim.base
                or (place.file in _WEIGHTS and self._is_to_be_idle(place.cgroup))
            )
        }

    def _is_to_be_idle(self, cgroup: str) -> bool:
        claim = self.get(SettingFile(cgroup, IDLE_FILE))
        return claim is not None and claim.value == "1"


def _claim_of(entry: HeldSetting) -> SettingClaim:
    return SettingClaim(
        base=entry.base,
        stated=entry.stated,
        reason=entry.reason,
        owner=entry.owner,
        value=entry.value,
        wrote=dict(entry.wrote),
        unsure=entry.unsure,
        entered=True,
        changed=False,
    )

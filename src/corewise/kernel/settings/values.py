"""The files that hold settings, and their values in one form, so that what is the same compares equal.

=============  ======================  ======================================================================
setting        file (v1, v2)           form
=============  ======================  ======================================================================
CPU_WEIGHT     cpu.shares, cpu.weight  a number; v1 takes one beyond 2..262144 for the nearest of them
CPUSET         cpuset.cpus             ranges, ascending
MEMORY_NODES   cpuset.mems             likewise
MEMORY_LIMIT   memory.limit_in_bytes,  whole pages; without a limit "-1" on v1, which shows it as a number
               memory.max              just below 2^63, and "max" on v2
=============  ======================  ======================================================================

Source: kernel/sched/core.c (sched_group_set_shares), mm/page_counter.c (page_counter_memparse).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from corewise.actions import Setting
from corewise.kernel.cgroups.cpu import weight_file
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.memory import limit_file
from corewise.topology import CPUSet

LISTS = frozenset({Setting.CPUSET, Setting.MEMORY_NODES})
"""Settings that are sets: on v1 a cgroup's is within its parent's."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_LIMIT = (1 << 63) // _PAGE * _PAGE - _PAGE
_NUMBER = re.compile(r"[0-9]{1,20}")
_LEAST_SHARES, _MOST_SHARES = 2, 1 << 18


def setting_file(version: Version, setting: Setting) -> str:
    """Return the file that holds a setting."""
    match setting:
        case Setting.CPU_WEIGHT:
            return weight_file(version)
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
    if version is Version.V1:
        number = min(max(number, _LEAST_SHARES), _MOST_SHARES)
    return str(number)


@lru_cache(maxsize=1024)
def cpus_in(text: str) -> CPUSet:
    """Return the set that a list names; of hundreds of cgroups most have one of a few.

    Raises:
        CPUSetError: if it is no list.
    """
    return CPUSet.parse(text)


@lru_cache(maxsize=1024)
def list_of(cpus: CPUSet) -> str:
    """Return a set as a list."""
    return str(cpus)


def bytes_of(limit: str) -> int | None:
    """Return a memory limit in its normal form as a number; None is no limit."""
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

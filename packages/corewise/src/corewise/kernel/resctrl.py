"""The counters and limits of resctrl for a whole machine: memory traffic and last-level cache. Read only.

The root and every other top-level group are summed up over the caches. A group's file already holds the sum
over its ``mon_groups``, and a cache's (``mon_L3_XX``) the sum over its sub-NUMA nodes (``mon_sub_L3_YY``), so
neither is read: they would count twice. Code/data prioritization splits what is allocated (``info/L3CODE``,
``info/L3DATA``), not what is monitored. Every task is in exactly one of the groups that are read. No group is
created, for monitoring IDs are scarce.

::

    sys/fs/resctrl/info/L3_MON/mon_features                     llc_occupancy, mbm_total_bytes …
    sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes           the root group in cache 0
    sys/fs/resctrl/mon_groups/…                                 not read
    sys/fs/resctrl/batch/mon_data/mon_L3_00/mbm_total_bytes     the group "batch"

``Unavailable``, ``Error`` and ``Unassigned`` are what the kernel writes where it has no value. That is never
a zero: one of them makes the machine's sum unknown.

What can be limited stands in ``info``: of each kind of cache the mask of all its ways and the fewest bits
that a mask may have, of memory bandwidth the smallest value and the step::

    sys/fs/resctrl/info/L3/cbm_mask, min_cbm_bits               or L3CODE and L3DATA
    sys/fs/resctrl/info/MB/min_bandwidth, bandwidth_gran

Source: the kernel's Documentation/filesystems/resctrl.rst ("Info directory", "mon_data", "Notes on Sub-NUMA
Cluster mode").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from corewise.kernel.host_files import HostFiles
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

MOUNT_POINT = "sys/fs/resctrl"
ROOT_GROUP = ""
NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})
"""Directories of the root group that are no groups."""
CACHES = ("L3", "L3CODE", "L3DATA")
_CACHE = re.compile(r"mon_L3_[0-9]{1,9}")
_COUNT = re.compile(r"[0-9]{1,20}")
_SHOWN = 40

GroupCache = tuple[str, str]
"""A group ("" is the root) and a cache ("mon_L3_00")."""


class MonitoringEvent(StrEnum):
    """The events that can be monitored, as the kernel names them."""

    TRAFFIC = "mbm_total_bytes"
    OCCUPANCY = "llc_occupancy"


def read_counts(files: HostFiles, event: MonitoringEvent) -> Mapping[GroupCache, int] | Finding:
    """Return the value of an event in every group and cache; a Finding if one of them has none."""
    absent = _absence(files, event)
    if absent is not None:
        return absent
    counts: dict[GroupCache, int] = {}
    for place, path in _places(files, event):
        text = files.text(path)
        if text is None or not _COUNT.fullmatch(text):
            said = "cannot be read" if text is None else f"says {text[:_SHOWN]!r}"
            return Finding(Reason.RESCTRL_NO_VALUE, f"{path} {said}")
        counts[place] = int(text)
    if not counts:
        return Finding(Reason.RESCTRL_EVENT_MISSING, f"{MOUNT_POINT}/mon_data has no cache")
    return counts


@dataclass(frozen=True, slots=True)
class AllocationInfo:
    """The resources that resctrl can limit.

    ``caches``: by kind the mask of all ways and the fewest bits of a mask. ``bandwidth``: smallest value and
    step; None if it cannot be limited.
    """

    caches: Mapping[str, tuple[int, int]]
    bandwidth: tuple[int, int] | None


def read_allocation(files: HostFiles) -> AllocationInfo | Finding:
    """Return the resources that can be limited; a Finding if there is no resctrl."""
    absent = mount_absence(files)
    if absent is not None:
        return absent
    caches = {}
    for name in CACHES:
        mask = files.parsed(f"{MOUNT_POINT}/info/{name}/cbm_mask", lambda text: int(text, 16))
        if mask:
            caches[name] = mask, files.number(f"{MOUNT_POINT}/info/{name}/min_cbm_bits") or 1
    smallest = files.number(f"{MOUNT_POINT}/info/MB/min_bandwidth")
    step = files.number(f"{MOUNT_POINT}/info/MB/bandwidth_gran")
    return AllocationInfo(caches, None if smallest is None else (smallest, step or 1))


def mount_absence(files: HostFiles) -> Finding | None:
    """Return the reason that resctrl is absent; None if it is mounted."""
    if files.entries(MOUNT_POINT):
        return None
    folder, _, name = MOUNT_POINT.rpartition("/")
    if name in files.entries(folder):
        return Finding(Reason.RESCTRL_NOT_MOUNTED, f"{MOUNT_POINT} is empty")
    return Finding(Reason.RESCTRL_UNSUPPORTED, f"there is no {MOUNT_POINT}")


def _absence(files: HostFiles, event: MonitoringEvent) -> Finding | None:
    absent = mount_absence(files)
    if absent is not None:
        return absent
    features = f"{MOUNT_POINT}/info/L3_MON/mon_features"
    if event not in (files.text(features) or "").split():
        return Finding(Reason.RESCTRL_EVENT_MISSING, f"{features} does not list {event}")
    return None


def _places(files: HostFiles, event: MonitoringEvent) -> Iterator[tuple[GroupCache, str]]:
    """Yield every place of the event, with its file. A group that is pseudo-locked has no ``mon_data``."""
    others = (name for name in files.directories(MOUNT_POINT) if name not in NO_GROUPS)
    for group in (ROOT_GROUP, *others):
        data = "/".join(filter(None, (MOUNT_POINT, group, "mon_data")))
        for cache in files.entries(data):
            if _CACHE.fullmatch(cache):
                yield (group, cache), f"{data}/{cache}/{event}"

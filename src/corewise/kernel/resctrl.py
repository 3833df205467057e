"""What resctrl counts of a whole machine: memory traffic and last-level cache, read and never written.

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

Source: the kernel's Documentation/filesystems/resctrl.rst ("mon_data", "Notes on Sub-NUMA Cluster mode").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

from corewise.kernel.host_files import Absent, HostFiles
from corewise.vocabulary.reasons import Reason

MOUNT_POINT = "sys/fs/resctrl"
ROOT_GROUP = ""
_NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})
_CACHE = re.compile(r"mon_L3_[0-9]{1,9}")
_COUNT = re.compile(r"[0-9]{1,20}")
_SHOWN = 40

GroupCache = tuple[str, str]
"""A group ("" is the root) and a cache ("mon_L3_00")."""


class MonitoringEvent(StrEnum):
    """What can be monitored, as the kernel names it."""

    TRAFFIC = "mbm_total_bytes"
    OCCUPANCY = "llc_occupancy"


def read_counts(files: HostFiles, event: MonitoringEvent) -> Mapping[GroupCache, int] | Absent:
    """Return the value of an event in every group and cache; Absent if one of them has none."""
    absent = _absence(files, event)
    if absent is not None:
        return absent
    counts: dict[GroupCache, int] = {}
    for place, path in _places(files, event):
        text = files.text(path)
        if text is None or not _COUNT.fullmatch(text):
            said = "cannot be read" if text is None else f"says {text[:_SHOWN]!r}"
            return Absent(Reason.RESCTRL_NO_VALUE, f"{path} {said}")
        counts[place] = int(text)
    if not counts:
        return Absent(Reason.RESCTRL_EVENT_MISSING, f"{MOUNT_POINT}/mon_data has no cache")
    return counts


def _absence(files: HostFiles, event: MonitoringEvent) -> Absent | None:
    if not files.entries(MOUNT_POINT):
        folder, _, name = MOUNT_POINT.rpartition("/")
        if name in files.entries(folder):
            return Absent(Reason.RESCTRL_NOT_MOUNTED, f"{MOUNT_POINT} is empty")
        return Absent(Reason.RESCTRL_UNSUPPORTED, f"there is no {MOUNT_POINT}")
    features = f"{MOUNT_POINT}/info/L3_MON/mon_features"
    if event not in (files.text(features) or "").split():
        return Absent(Reason.RESCTRL_EVENT_MISSING, f"{features} does not list {event}")
    return None


def _places(files: HostFiles, event: MonitoringEvent) -> Iterator[tuple[GroupCache, str]]:
    """Yield every place of the event, with its file. A group that is pseudo-locked has no ``mon_data``."""
    others = (name for name in files.directories(MOUNT_POINT) if name not in _NO_GROUPS)
    for group in (ROOT_GROUP, *others):
        data = "/".join(filter(None, (MOUNT_POINT, group, "mon_data")))
        for cache in files.entries(data):
            if _CACHE.fullmatch(cache):
                yield (group, cache), f"{data}/{cache}/{event}"

"""The cache and memory bandwidth of offline pods: from percentages to resctrl's schemata.

*Cache.* A mask of ``ways`` bits, one for each way of the cache. The range start..end in percent becomes the
ways from ceil(ways x start / 100) up to ceil(ways x end / 100), as Koordinator computes it, widened to the
fewest bits that the kernel takes. What others have to themselves (exclusive and pseudo-locked regions) is
left out: the kernel offers a new group the rest. The bits of a mask are contiguous: Intel's processors take
no others.

*Bandwidth.* The percentage of the largest value, rounded up to a multiple of the step, and not below the
smallest. On Intel the largest value is 100 (percent), on AMD a number of 1/8 GB/s (2048 = 256 GB/s). It is
what the kernel gives a new group, so the processor's vendor need not be known.

    ways 20, range 0..30:    mask 3f (6 ways)
    ways 11, range 30..60:   mask 70 (3 ways)
    Intel, step 10, 25 %:    MB 30
    AMD, step 1, 2048, 25 %: MB 512

With code/data prioritization code and data each get the range. Source: the kernel's
Documentation/filesystems/resctrl.rst ("Info directory", "Schemata files - general concepts").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from corewise.config.colocation import ResctrlSettings
from corewise.vocabulary.reasons import Reason

BANDWIDTH = "MB"
CACHES = ("L3", "L3CODE", "L3DATA")
_NO_MAXIMUM = (1 << 32) - 1
"""The kernel's value for a new group when mounted with mba_MBps: MB/s, and no limit."""

Schemata: TypeAlias = Mapping[str, Mapping[int, int]]
"""By resource ("L3", "MB"), the value of each domain: a mask of ways, or a bandwidth."""


def parse_schemata(text: str) -> Schemata:
    """Read a group's schemata; resources other than last-level cache and bandwidth are left out.

    Raises:
        ValueError: if a line is none that the kernel writes.
    """
    schemata: dict[str, dict[int, int]] = {}
    for line in text.splitlines():
        resource, _, values = line.strip().partition(":")
        if resource not in (*CACHES, BANDWIDTH):
            continue
        base = 10 if resource == BANDWIDTH else 16
        pairs = [each.partition("=") for each in values.split(";")]
        try:
            schemata[resource] = {int(domain): int(value, base) for domain, _, value in pairs}
        except ValueError:
            raise ValueError(f"{line[:80]!r} is not a line of schemata") from None
    return schemata


def print_line(resource: str, values: Mapping[int, int]) -> str:
    """Return the line of a resource as it is written to a group's schemata."""
    form = "d" if resource == BANDWIDTH else "x"
    return f"{resource}:" + ";".join(f"{domain}={value:{form}}" for domain, value in values.items())


@dataclass(frozen=True, slots=True)
class ResctrlPlan:
    """The limits of the group of offline pods, and the reasons for those that are impossible."""

    schemata: Schemata = field(default_factory=dict)
    lacking: Mapping[Reason, str] = field(default_factory=dict)


def plan_limits(
    settings: ResctrlSettings,
    caches: Mapping[str, tuple[int, int]],
    bandwidth: tuple[int, int] | None,
    offered: Schemata,
) -> ResctrlPlan:
    """Compute the limits from what the kernel states, and from what it offered the group when it was new.

    ``caches`` has the mask and the fewest bits of each kind of cache, ``bandwidth`` the smallest value and
    the step.
    """
    schemata: dict[str, dict[int, int]] = {}
    lacking: dict[Reason, str] = {}
    if settings.limits_cache:
        for resource, (full, least) in caches.items():
            masks = {
                domain: cache_mask(full, usable, least, settings.cat_start, settings.cat_end)
                for domain, usable in offered.get(resource, {}).items()
            }
            schemata[resource] = {domain: mask for domain, mask in masks.items() if mask is not None}
            narrow = [str(domain) for domain, mask in masks.items() if mask is None]
            if narrow:
                lacking[Reason.RESCTRL_CACHE_TAKEN] = (
                    f"{resource} of cache {', '.join(narrow)} is not limited"
                )
        if not any(schemata.values()) and not lacking:
            lacking[Reason.RESCTRL_CAT_MISSING] = "the share of the last-level cache is not limited"
    if settings.limits_bandwidth:
        values = offered.get(BANDWIDTH, {})
        largest = max(values.values(), default=0)
        if bandwidth is None or not values:
            lacking[Reason.RESCTRL_MBA_MISSING] = "memory bandwidth is not limited"
        elif largest >= _NO_MAXIMUM:
            lacking[Reason.RESCTRL_MBPS] = "memory bandwidth is not limited"
        else:
            limit = bandwidth_limit(largest, *bandwidth, settings.mba)
            schemata[BANDWIDTH] = dict.fromkeys(values, limit)
    return ResctrlPlan({resource: values for resource, values in schemata.items() if values}, lacking)


def cache_mask(full: int, usable: int, least: int, start: int, end: int) -> int | None:
    """Return the ways of a range in percent; None if fewer than the least are usable in a row.

    ``full`` is the mask of all ways, ``usable`` those that a group may have.
    """
    ways = full.bit_length()
    last = -(-ways * end // 100)
    first = min(-(-ways * start // 100), last - 1)
    for low, high in _runs(usable & full):
        if high - low < least:
            continue
        # The part of the run that is in the range, widened to the least within the run.
        begin, finish = max(first, low), min(last, high)
        if finish <= begin:
            continue
        if finish - begin < least:
            begin = max(low, min(begin, high - least))
            finish = begin + least
        return (1 << finish) - (1 << begin)
    return None


def _runs(mask: int) -> list[tuple[int, int]]:
    """Return the contiguous bits of a mask, each as the first and the one after the last; longest first."""
    runs, start = [], None
    for bit in range(mask.bit_length() + 1):
        is_set = mask >> bit & 1
        if is_set and start is None:
            start = bit
        elif not is_set and start is not None:
            runs.append((start, bit))
            start = None
    return sorted(runs, key=lambda run: (run[0] - run[1], run))


def bandwidth_limit(largest: int, smallest: int, step: int, percent: int) -> int:
    """Return a percentage of the largest bandwidth as the kernel takes it."""
    value = -(-largest * percent // 100)
    return min(largest, max(smallest, -(-value // step) * step))

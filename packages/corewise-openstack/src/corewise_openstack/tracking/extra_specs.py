"""Which extra specs and image properties about CPUs, memory pages and NUMA are served, as of Nova 34.

What is not served is never ignored in silence: it gives a warning that says what is not guaranteed, or with
``strict`` a refusal. So does a key that Nova does not know and that looks like one of these. Other keys, such
as ``hw:boot_menu`` or ``hw_disk_bus``, concern neither and are left alone.

Sources: Nova's validators of extra specs (``nova.api.validation.extra_specs``) and its image properties
(``nova.objects.image_meta``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corewise.config.decoding import did_you_mean
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.tracking.flavor import Flavor, Image, StatedValue


class Support(StrEnum):
    """The treatment of a key."""

    SERVED = "served"
    WITH_AGGREGATES = "served with --aggregates"
    """Otherwise warned."""
    WARNED = "warned"


@dataclass(frozen=True, slots=True)
class SpecRow:
    """A key, as a flavor and as an image write it; "" where one of them cannot.

    ``N`` stands for a number. ``about``: what it means, or of a key that is not served what is not
    guaranteed.
    """

    flavor: str
    image: str
    support: Support
    about: str


def _served(key: str, about: str, *, image: bool = True) -> SpecRow:
    return SpecRow(f"hw:{key}", f"hw_{key}" if image else "", Support.SERVED, about)


def _warned(key: str, about: str) -> SpecRow:
    return SpecRow(f"hw:{key}", f"hw_{key}", Support.WARNED, about)


_PAGES = "no memory pages of this size are counted or reserved on the host's NUMA nodes"
_TOPOLOGY = "sockets, cores and threads of the guest stay as its domain has them"
_ENCRYPTION = "hosts are not chosen by memory encryption: request resources:MEM_ENCRYPTION_CONTEXT=1"
_ADDRESS = "the width of physical addresses stays as the guest's domain has it"
_DEVICES = "devices are neither counted nor placed near the guest's CPUs"
_QUOTA = "the quota is not written to the guest's domain"
_AGGREGATES = "host aggregates are not considered: name a file of them with --aggregates"
_CAPABILITIES = "the host's capabilities are not considered: request a trait, such as trait:HW_CPU_X86_AVX2"
_VMWARE = "it is for VMware, whose hosts are not served"

AGGREGATES: Final = "aggregate_instance_extra_specs:"
"""What extra specs about the properties of host aggregates begin with."""

SPECS: Final = (
    _served("cpu_policy", "`shared`, `dedicated` or `mixed`"),
    _served("cpu_dedicated_mask", "the dedicated CPUs of a mixed guest", image=False),
    _served("cpu_thread_policy", "`prefer`, `isolate` or `require`"),
    _served("emulator_threads_policy", "`isolate` or `share`", image=False),
    _served("cpu_realtime", "the guest's dedicated CPUs run under SCHED_FIFO", image=False),
    _served("cpu_realtime_mask", "which of them do"),
    _served("numa_nodes", "how many NUMA nodes the guest has"),
    _served("numa_cpus.N", "the guest CPUs of a NUMA node"),
    _served("numa_mem.N", "the memory of a NUMA node, in MiB"),
    SpecRow("resources[N]:CLASS", "", Support.SERVED, "an amount of a resource class"),
    SpecRow("trait[N]:TRAIT", "trait:TRAIT", Support.SERVED, "`required` or `forbidden`"),
    SpecRow("group_policy", "", Support.SERVED, "`none` or `isolate`"),
    _warned("mem_page_size", _PAGES),
    _warned("mem_encryption", _ENCRYPTION),
    _warned("mem_encryption_model", _ENCRYPTION),
    _warned("locked_memory", "whether the guest's memory is locked stays as its domain has it"),
    SpecRow("hw:pmem", "", Support.WARNED, "persistent memory is not counted"),
    _warned("cpu_sockets", _TOPOLOGY),
    _warned("cpu_cores", _TOPOLOGY),
    _warned("cpu_threads", _TOPOLOGY),
    _warned("cpu_max_sockets", _TOPOLOGY),
    _warned("cpu_max_cores", _TOPOLOGY),
    _warned("cpu_max_threads", _TOPOLOGY),
    SpecRow("hw:max_cpu_sockets", "", Support.WARNED, _TOPOLOGY),
    SpecRow("hw:max_cpu_cores", "", Support.WARNED, _TOPOLOGY),
    SpecRow("hw:max_cpu_threads", "", Support.WARNED, _TOPOLOGY),
    _warned("maxphysaddr_mode", _ADDRESS),
    _warned("maxphysaddr_bits", _ADDRESS),
    _warned("pmu", "whether the guest has performance counters stays as its domain has it"),
    _warned("pci_numa_affinity_policy", _DEVICES),
    SpecRow("pci_passthrough:alias", "", Support.WARNED, _DEVICES),
    SpecRow("quota:cpu_shares", "", Support.WARNED, _QUOTA),
    SpecRow("quota:cpu_period", "", Support.WARNED, _QUOTA),
    SpecRow("quota:cpu_quota", "", Support.WARNED, _QUOTA),
    SpecRow("quota:cpu_limit", "", Support.WARNED, _VMWARE),
    SpecRow("quota:cpu_reservation", "", Support.WARNED, _VMWARE),
    SpecRow("quota:cpu_shares_level", "", Support.WARNED, _VMWARE),
    SpecRow("quota:cpu_shares_share", "", Support.WARNED, _VMWARE),
    SpecRow("capabilities:KEY", "", Support.WARNED, _CAPABILITIES),
    SpecRow(f"{AGGREGATES}KEY", "", Support.WITH_AGGREGATES, _AGGREGATES),
)
"""Every key of Nova 34 that concerns CPUs, memory pages or NUMA, beside those of Placement."""

_NEAR = 0.8
_ALIKE = "ephemeral_encryption"
"""A key of disks that is spelled nearly as one of memory is."""
_NUMBER = re.compile(r"\.[0-9]+$")
_SUBJECTS = ("cpu", "numa", "mem", "emulator", "realtime")
"""What keys about CPUs, memory pages and NUMA begin with, behind their prefix."""


def unserved(flavor: Flavor, image: Image, *, aggregates: bool = False) -> Iterator[Finding]:
    """Yield a warning for each key that is not served, and for each that Nova does not know.

    ``aggregates``: host aggregates are known, so what asks for them is served.
    """
    served = {Support.SERVED, Support.WITH_AGGREGATES} if aggregates else {Support.SERVED}
    of_flavors = {row.flavor: row for row in SPECS if row.flavor}
    yield from _of(flavor.extra_specs, "flavor extra spec", of_flavors, served)
    yield from _of(image.properties, "image property", {row.image: row for row in SPECS if row.image}, served)


def _of(
    stated: Mapping[str, str], kind: str, rows: Mapping[str, SpecRow], served: Collection[Support]
) -> Iterator[Finding]:
    for key in sorted(stated):
        if not stated[key].strip():
            continue
        family = next((name for name in rows if name.endswith(":KEY") and key.startswith(name[:-3])), None)
        row = rows.get(family or _NUMBER.sub(".N", key))
        written = StatedValue(f"{kind} {key}", stated[key])
        if row is not None and row.support not in served:
            yield Finding(Reason.EXTRA_SPEC_UNSERVED, f"{written} is not served: {row.about}")
        elif row is None:
            prefix, name = key[:3], key[3:]
            near = did_you_mean(key, [each for each in rows if each.startswith("hw")], _NEAR)
            if prefix in {"hw:", "hw_"} and name != _ALIKE and (near or name.startswith(_SUBJECTS)):
                yield Finding(Reason.EXTRA_SPEC_UNKNOWN, f"{written} means nothing{near}")

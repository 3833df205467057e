"""Which boot of the machine this is: what is held in cgroups does not outlive it.

Source: random(4), /proc/sys/kernel/random/boot_id.
"""

from __future__ import annotations

from pathlib import Path

from corewise.kernel.host_files import HostFiles

BOOT_ID = "proc/sys/kernel/random/boot_id"


def read_boot_id(root: str | Path = "/") -> str:
    """Return the ID of the boot, as kubelet reports it; "" if the kernel does not tell."""
    return HostFiles(root).text(BOOT_ID) or ""

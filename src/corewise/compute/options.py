"""The options of the host agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corewise.service.options import Address
from corewise.tracking import Compat

INTERVAL = 60.0
"""Seconds between two passes, as in Nova's own periodic task."""


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """The options of the agent of one host.

    ``topology``: the machine as a file has it, instead of the one below ``root``. ``state_dir`` is the host's
    directory (:mod:`corewise.compute.hosts`); None keeps nothing on disk. ``libvirt``: URI of the libvirt
    whose guests count; None: only those of the ledger. ``standalone``: report MEMORY_MB too, and DISK_GB if
    ``disk_gb`` is set, on a host without nova-compute.
    """

    name: str
    config: tuple[Path, ...] = ()
    root: Path = Path("/")
    topology: Path | None = None
    compat: Compat = Compat.SPEC
    interval: float = INTERVAL
    state_dir: Path | None = None
    libvirt: str | None = None
    standalone: bool = False
    disk_gb: int = 0
    metrics_listen: Address | None = None
    once: bool = False
    dry_run: bool = False

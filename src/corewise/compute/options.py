"""What the host agent is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corewise.service.options import Address
from corewise.tracking import Compat

INTERVAL = 60.0
"""Seconds between two looks; Nova's own periodic task takes as long."""


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """What the agent of one host is told.

    ``topology``: the machine as a file has it, instead of the one below ``root``. ``state_dir`` is the host's
    directory (:mod:`corewise.compute.hosts`); None keeps nothing on disk. ``libvirt``: URI of the libvirt
    whose guests count; None: only those of the ledger. ``standalone``: state MEMORY_MB too, and DISK_GB if
    ``disk_gb`` is set, because nobody else does.
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

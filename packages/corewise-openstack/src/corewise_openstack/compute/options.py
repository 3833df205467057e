"""The options of the host agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corewise.service.options import Address
from corewise_openstack.tracking import Compat

INTERVAL = 60.0
"""Seconds between two passes, as in Nova's own periodic task."""


@dataclass(frozen=True, slots=True)
class Grace:
    """Seconds that CPUs stay a guest's own that its domain no longer has.

    ``applied``: its domain has had them. ``awaited``: it was scheduled, and its domain has not been seen yet.
    """

    applied: float = 600.0
    awaited: float = 3600.0


GRACE = Grace()


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """The options of the agent of one host.

    ``topology``: the machine as a file has it, instead of the one below ``root``. ``state_dir`` is the host's
    directory (:mod:`corewise_openstack.compute.hosts`); None keeps nothing on disk. ``libvirt``: URI of the
    libvirt whose domains the ledger follows, with ``grace``; None: only commands change the ledger.
    ``apply``: write the CPUs that were chosen into domains that do not have them. ``beside_nova``: the
    options of the nova-compute that runs on the host too; without ``config`` the agent only checks.
    ``listen``: serve the ledger there over HTTPS, with ``tls_cert`` and ``tls_key``, to callers whose
    certificates the authorities of ``client_ca`` have signed; these are files. ``standalone``: report
    MEMORY_MB too, and DISK_GB if ``disk_gb`` is set, on a host without nova-compute.
    """

    name: str
    config: tuple[Path, ...] = ()
    root: Path = Path("/")
    topology: Path | None = None
    compat: Compat = Compat.SPEC
    interval: float = INTERVAL
    state_dir: Path | None = None
    libvirt: str | None = None
    grace: Grace = GRACE
    apply: bool = False
    standalone: bool = False
    disk_gb: int = 0
    metrics_listen: Address | None = None
    listen: Address | None = None
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    once: bool = False
    dry_run: bool = False
    beside_nova: tuple[Path, ...] = ()

    @property
    def checks_only(self) -> bool:
        """Whether Nova owns the host's CPUs: nothing is written to Placement then."""
        return bool(self.beside_nova) and not self.config

    @property
    def conf_files(self) -> tuple[Path, ...]:
        """The options that say what the CPUs are for: those of corewise's own guests, or Nova's."""
        return self.config or self.beside_nova

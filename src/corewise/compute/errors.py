"""What the compute program cannot do, each with a reason code, a message and the next thing to try.

::

    ComputeError
    ├── FileUnusable         a file cannot be read, or is not what it should be
    ├── LedgerUnusable       the ledger cannot be read or written
    │   ├── LedgerDamaged    it is not what was written: cut off, changed, half there
    │   └── LedgerBusy       somebody else has held it for too long
    ├── GuestUnknown         no such guest on any host
    ├── GuestExists          a guest of this UUID has a host already
    └── HostUnknown          no such host
"""
# ruff: noqa: N818 - these errors are named after what happened

from __future__ import annotations

from corewise.openstack import errors as openstack
from corewise.vocabulary.reasons import Reason

_OPENSTACK: tuple[tuple[type[openstack.OpenStackError], Reason], ...] = (
    (openstack.Unauthorized, Reason.PLACEMENT_UNAUTHORIZED),
    (openstack.Forbidden, Reason.PLACEMENT_FORBIDDEN),
    (openstack.UnknownTraits, Reason.TRAIT_UNKNOWN),
    (openstack.NotFound, Reason.PLACEMENT_NOT_FOUND),
    (openstack.ConflictStorm, Reason.PLACEMENT_CONFLICT),
    (openstack.ConcurrentUpdate, Reason.PLACEMENT_CONFLICT),
    (openstack.ServerError, Reason.PLACEMENT_DOWN),
    (openstack.AnswerRefusing, Reason.PLACEMENT_REFUSED),
    (openstack.PlacementError, Reason.PLACEMENT_DOWN),
    (openstack.NovaConfError, Reason.FILE_UNUSABLE),
    (openstack.LibvirtXMLError, Reason.FILE_UNUSABLE),
    (openstack.LibvirtError, Reason.LIBVIRT_UNUSABLE),
    (openstack.OpenStackError, Reason.OPENSTACK_UNUSABLE),
)
"""The first that fits counts."""


def openstack_reason(error: openstack.OpenStackError) -> Reason:
    """Return what an error of OpenStack is called."""
    return next(reason for kind, reason in _OPENSTACK if isinstance(error, kind))


class ComputeError(Exception):
    """Base of all errors of this program; ``str()`` is the message."""

    default_hint = ""
    reason = Reason.FILE_UNUSABLE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.default_hint


class FileUnusable(ComputeError):
    """A file that somebody named cannot be read, or is not what it should be."""


class LedgerUnusable(ComputeError):
    """The ledger cannot be read or written; nothing was changed."""

    reason = Reason.LEDGER_UNUSABLE
    default_hint = "its directory must exist and be writable"


class LedgerDamaged(LedgerUnusable):
    """The ledger is not what was written. Nothing is guessed from what is left of it."""

    reason = Reason.LEDGER_DAMAGED


class LedgerBusy(LedgerUnusable):
    """Another process holds the ledger."""

    reason = Reason.LEDGER_BUSY
    default_hint = "end the process that holds it, or wait"


class GuestUnknown(ComputeError):
    """No host has a guest of this name."""

    reason = Reason.GUEST_UNKNOWN


class GuestExists(ComputeError):
    """A guest of this UUID has a host already."""

    reason = Reason.GUEST_EXISTS


class HostUnknown(ComputeError):
    """Nothing is known of a host of this name."""

    reason = Reason.HOST_UNKNOWN

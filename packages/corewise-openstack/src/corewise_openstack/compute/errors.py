"""Failures of the compute program, each with a reason code, a message and the next thing to try.

::

    ComputeError
    ├── FileUnusable         a file cannot be read, or is not what it should be
    ├── LedgerUnusable       the ledger cannot be read or written
    │   ├── LedgerDamaged    its content is not what was written: cut off or changed
    │   ├── JournalUnusable  what was written into domains cannot be read or recorded
    │   ├── LedgerBusy       another process has held it for too long
    │   └── AgentFailed      the agent that has the ledger refuses, and says why
    │       ├── AgentUnreachable   it does not answer
    │       ├── AgentUntrusted     it, or its caller, has no certificate that the other accepts
    │       └── AgentIncompatible  it speaks another version of the API
    ├── NUMANodeGone         a guest is on a NUMA node that its host does not have
    ├── DomainChanged        somebody else has changed a domain since it was written
    ├── GuestUnknown         no such guest on any host
    ├── GuestExists          a guest of this UUID has a host already
    ├── GuestMoving          a guest is being moved, and this must wait
    ├── GuestNotMoving       there is no move to confirm or revert
    ├── MoveRefused          a step of a move would take CPUs of another guest
    ├── PlacementNotNamed    a claim is to change in a Placement that is not named
    ├── SourceAlive          a host is not down, so no guest is evacuated from it
    ├── HostUnknown          no such host
    └── AggregateUnknown     no such host aggregate, or none with such a property
"""
# ruff: noqa: N818 - these errors are named after what happened

from __future__ import annotations

from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.reasons import Reason


class ComputeError(OperationalError):
    """Base of all errors of this program."""

    reason: Reason = Reason.FILE_UNUSABLE
    exit_code = ExitCode.REFUSED


class FileUnusable(ComputeError):
    """A file cannot be read, or is not what it should be."""

    exit_code = ExitCode.BAD_INPUT


class LedgerUnusable(ComputeError):
    """The ledger cannot be read or written; nothing was changed."""

    reason = Reason.LEDGER_UNUSABLE
    exit_code = ExitCode.LEDGER
    default_hint = "its directory must exist and be writable"


class LedgerDamaged(LedgerUnusable):
    """The ledger is not what was written; nothing is guessed from the rest."""

    reason = Reason.LEDGER_DAMAGED


class LedgerBusy(LedgerUnusable):
    """Another process holds the ledger."""

    reason = Reason.LEDGER_BUSY
    default_hint = "end the process that holds it, or wait"


class AgentFailed(LedgerUnusable):
    """An agent refuses a request; ``reason`` and exit code are those of its answer."""

    default_hint = ""

    def __init__(
        self, message: str, *, hint: str = "", reason: Reason | None = None, exit_code: ExitCode | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        if reason is not None:
            self.reason = reason
        if exit_code is not None:
            self.exit_code = exit_code


class AgentUnreachable(AgentFailed):
    """An agent does not answer. ``sent``: it may have carried out the request."""

    reason = Reason.AGENT_UNREACHABLE
    exit_code = ExitCode.CONNECTION

    def __init__(self, message: str, *, hint: str = "", sent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.sent = sent


class AgentUntrusted(AgentFailed):
    """An agent or its caller shows no certificate that the other accepts; nothing was done."""

    reason = Reason.AGENT_UNTRUSTED
    exit_code = ExitCode.UNAUTHORIZED


class AgentIncompatible(AgentFailed):
    """An agent speaks another version of the API; nothing was done."""

    reason = Reason.AGENT_INCOMPATIBLE
    exit_code = ExitCode.CONNECTION
    default_hint = "run the same version of corewise on both sides"


class JournalUnusable(LedgerUnusable):
    """The journal of what was written into domains cannot be read or written; nothing was changed."""


class NUMANodeGone(ComputeError):
    """A guest is on a NUMA node that its host does not have, so its domain cannot be written."""

    reason = Reason.GUEST_UNAPPLIED
    default_hint = "move the guest: corewise compute move GUEST --to HOST"


class DomainChanged(ComputeError):
    """Somebody else has changed a domain since it was written; that was left as it is."""

    reason = Reason.DOMAIN_CHANGED


class GuestUnknown(ComputeError):
    """No host has a guest with this name."""

    reason = Reason.GUEST_UNKNOWN
    exit_code = ExitCode.NOT_FOUND


class GuestExists(ComputeError):
    """A guest of this UUID has a host already."""

    reason = Reason.GUEST_EXISTS


class GuestMoving(ComputeError):
    """A guest is being moved, and this must wait until that is confirmed or reverted."""

    reason = Reason.GUEST_MOVING


class GuestNotMoving(ComputeError):
    """There is no move of a guest to confirm or revert."""

    reason = Reason.GUEST_NOT_MOVING
    exit_code = ExitCode.NOT_FOUND


class MoveRefused(ComputeError):
    """A step of a move concerns other guests too, or takes CPUs that are not free."""

    reason = Reason.MOVE_REFUSED


class PlacementNotNamed(ComputeError):
    """A guest's claim is to change, it is in a Placement, and none is named, or another one."""

    reason = Reason.PLACEMENT_NOT_NAMED


class SourceAlive(ComputeError):
    """A host is not known to be down, so no guest is evacuated from it."""

    reason = Reason.SOURCE_ALIVE


class HostUnknown(ComputeError):
    """There is no host with this name."""

    reason = Reason.HOST_UNKNOWN
    exit_code = ExitCode.NOT_FOUND


class AggregateUnknown(ComputeError):
    """There is no such host aggregate, or none with such a property."""

    reason = Reason.AGGREGATE_UNKNOWN
    exit_code = ExitCode.NOT_FOUND

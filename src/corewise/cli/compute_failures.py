"""How the errors of ``corewise compute`` end it: reason code, message, hint, and an exit code for each class.

==== =================================================================================================
code class
==== =================================================================================================
3    Placement, Keystone or libvirt does not answer
4    no such guest, host or provider
5    a file, an option of nova.conf, a flavor or an image that cannot be used
6    refused: no valid host, a guest that is there already, what Placement refuses
8    Placement does not accept the credentials (401), or does not allow the request (403)
9    somebody else writes the same, again and again (409)
10   the ledger cannot be used: damaged, held by somebody else, not writable
==== =================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from corewise.cli.errors import ExitCode, Failure
from corewise.compute.errors import (
    ComputeError,
    FileUnusable,
    GuestUnknown,
    HostUnknown,
    LedgerUnusable,
    openstack_reason,
)
from corewise.openstack.errors import OpenStackError
from corewise.vocabulary.reasons import Reason

_CODES: tuple[tuple[type[ComputeError], ExitCode], ...] = (
    (LedgerUnusable, ExitCode.LEDGER),
    (FileUnusable, ExitCode.BAD_INPUT),
    (GuestUnknown, ExitCode.NOT_FOUND),
    (HostUnknown, ExitCode.NOT_FOUND),
    (ComputeError, ExitCode.REFUSED),
)
"""The first that fits counts."""

_OPENSTACK = {
    Reason.PLACEMENT_DOWN: ExitCode.CONNECTION,
    Reason.LIBVIRT_UNUSABLE: ExitCode.CONNECTION,
    Reason.PLACEMENT_NOT_FOUND: ExitCode.NOT_FOUND,
    Reason.TRAIT_UNKNOWN: ExitCode.BAD_INPUT,
    Reason.FILE_UNUSABLE: ExitCode.BAD_INPUT,
    Reason.OPENSTACK_UNUSABLE: ExitCode.BAD_INPUT,
    Reason.PLACEMENT_UNAUTHORIZED: ExitCode.UNAUTHORIZED,
    Reason.PLACEMENT_FORBIDDEN: ExitCode.UNAUTHORIZED,
    Reason.PLACEMENT_CONFLICT: ExitCode.CONFLICT,
    Reason.PLACEMENT_REFUSED: ExitCode.REFUSED,
}


@contextmanager
def told() -> Iterator[None]:
    """Turn every error of the program and of OpenStack into what the command says and ends with."""
    try:
        yield
    except ComputeError as error:
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        raise failure(error.reason, str(error), hint=error.hint, code=code) from error
    except OpenStackError as error:
        reason = openstack_reason(error)
        raise failure(reason, error.message, hint=error.hint, code=_OPENSTACK[reason]) from error


def failure(reason: Reason, message: str, *, hint: str = "", code: ExitCode = ExitCode.BAD_INPUT) -> Failure:
    """Return the end of a command: ``<reason code>: <message>``."""
    return Failure(f"{reason}: {message}", hint=hint or reason.text.fix, exit_code=code)


def failures(problems: Iterable[tuple[Reason, str]], *, code: ExitCode = ExitCode.BAD_INPUT) -> Failure:
    """Return the end of a command with several problems, a line each; the first one's hint follows."""
    told = list(problems)
    lines = "\n".join(f"{reason}: {message}" for reason, message in told)
    return Failure(lines, hint=told[0][0].text.fix, exit_code=code)

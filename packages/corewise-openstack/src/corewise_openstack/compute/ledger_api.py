"""Messages between schedulers and the agent of a host over HTTPS, as JSON.

=============================== =========================== ==============================================
request                         body                        answer
=============================== =========================== ==============================================
``GET /v1/host``                                            ``HostAnswer``: the host and its ledger
``POST /v1/claims``             ``GuestClaim``              ``ClaimAnswer``: the guest's CPUs, or why none
``DELETE /v1/guests/UUID``                                  ``{}``: the guest holds nothing of the host
``POST /v1/lock``                                           ``HostRecord``: the ledger, now locked
``PATCH /v1/lock``              ``LedgerPatch``             ``{}``: one step of a move is recorded
``DELETE /v1/lock``                                         ``{}``: the ledger is no longer locked
=============================== =========================== ==============================================

A move locks the ledgers of two hosts at a time, and asks Placement in between. The lock belongs to the
connection: the agent releases it when that is closed, however its holder ends, when it is idle for two
minutes, and after five minutes in any case. Eight requests may wait for the lock at a time; a further one is
answered 503 at once. A step that names a CPU beyond 0 to 8191 is answered 400.

Every other request may be repeated: a claim of the same guest for the same CPUs is answered as before. An
error is answered with a status of 400 or more and a ``FailureAnswer``; what the server itself refuses (a
caller without a certificate, a body that is too large), in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from corewise.vocabulary.exit_codes import ExitCode
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.ledger import GuestRecord
from corewise_openstack.tracking import Compat, HostOptions

HOST, CLAIMS, GUESTS, LOCK = "/v1/host", "/v1/claims", "/v1/guests/", "/v1/lock"


class HostAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A host. ``machine`` is what ``topology.json`` has, ``ledger`` a ``HostRecord``.

    ``nova_cpus``: those that nova-compute gives, as a CPU list; None where it does not run. ``silent``:
    seconds since the agent's last report; None before the first. ``corewise``: the agent's version.
    """

    host: str
    machine: msgspec.Raw
    options: HostOptions
    compat: Compat
    ledger: msgspec.Raw
    nova_cpus: str | None = None
    silent: float | None = None
    corewise: str = ""


class ClaimAnswer(msgspec.Struct, frozen=True):
    """One of both: what the guest got, or why not."""

    record: GuestRecord | None = None
    refusal: Finding | None = None


class LedgerPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of a guest and its migration that change; None removes one."""

    guests: Mapping[str, GuestRecord | None]


class FailureAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The failure that prevented an answer; ``exit_code`` is for the command that it ends."""

    message: str
    hint: str = ""
    reason: Reason | None = None
    exit_code: ExitCode = ExitCode.REFUSED

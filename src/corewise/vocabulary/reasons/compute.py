"""Reason codes: what the program ``corewise compute`` cannot do."""

from __future__ import annotations

from corewise.vocabulary.reasons.codes import Reason
from corewise.vocabulary.reasons.text import ReasonText, warning

COMPUTE = {
    Reason.FILE_UNUSABLE: ReasonText(
        "A file that was named cannot be read, or is not what it should be.",
        "Correct what the message names.",
    ),
    Reason.LEDGER_UNUSABLE: warning(
        "The ledger of a host cannot be read or written; nothing was changed.",
        "Make its directory, and let this user write there.",
    ),
    Reason.LEDGER_DAMAGED: warning(
        "The ledger of a host is not what was written: cut off, or changed. Nothing is guessed from it.",
        "Put a good copy in its place (ledger.json.1 is the one before the last change).",
    ),
    Reason.LEDGER_BUSY: warning(
        "Another process has held the ledger of a host for too long.",
        "End that process, or wait for it.",
    ),
    Reason.GUEST_UNKNOWN: ReasonText("No host that was asked has this guest."),
    Reason.GUEST_EXISTS: ReasonText(
        "A guest of this UUID has a host already.", "Delete it first, or choose another UUID."
    ),
    Reason.HOST_UNKNOWN: ReasonText(
        "Placement offers a host of which no topology is known, so nobody can say which CPUs are free there.",
        "Run corewise compute run on it, into a directory below --hosts.",
    ),
    Reason.CPUS_PROMISED_TWICE: warning(
        "The ledger gives a CPU to two guests, or a CPU that the host has not; no guest is placed there.",
        "See who they are with corewise compute status, and move one of them away.",
    ),
    Reason.NO_VALID_HOST: ReasonText(
        "No host can take the guest; the counts say how many hosts each demand eliminated.",
        "Free CPUs, or request less of what eliminates most hosts.",
    ),
    Reason.CLAIM_LOST: ReasonText(
        "Between the query and the claim somebody else took what the host had left; the next host is tried."
    ),
    Reason.OPENSTACK_UNUSABLE: warning(
        "What is needed to reach OpenStack is missing: a package, credentials, a file of configuration.",
        "Do what the hint of the message says.",
    ),
    Reason.LIBVIRT_UNUSABLE: warning(
        "libvirt does not answer, or refuses; what was last written stays in force.",
        "See whether libvirtd runs, and whether this user may connect.",
    ),
    Reason.PLACEMENT_DOWN: warning(
        "Placement does not answer; what was last written stays in force.",
        "See whether Placement runs, and whether its endpoint is right.",
    ),
    Reason.PLACEMENT_UNAUTHORIZED: warning(
        "Placement does not accept the credentials (401).", "Renew the password or token."
    ),
    Reason.PLACEMENT_FORBIDDEN: warning(
        "Placement knows the user and does not allow what was asked (403).",
        "Give the user the role admin, and service for a reshape, in the project of the services.",
    ),
    Reason.PLACEMENT_NOT_FOUND: ReasonText(
        "Placement has no such provider.", "Run corewise compute run on the host: it makes one."
    ),
    Reason.PLACEMENT_CONFLICT: warning(
        "Somebody else writes the same provider or consumer, again and again (409); nothing was changed.",
        "Find out who else writes it, then run the command once more.",
    ),
    Reason.PLACEMENT_REFUSED: ReasonText(
        "Placement refuses what it was asked; nothing was changed.", "Do what its message says."
    ),
    Reason.TRAIT_UNKNOWN: ReasonText(
        "The request names a trait that Placement has never heard of.",
        "Correct the name, or create the trait: names of your own begin with CUSTOM_.",
    ),
}

"""The agent's report on pods that wait for CPUs: the annotation ``node.corewise.io/interference``.

It is a report for people and commands; no decision depends on it. It stands on the NodeResourceTopology. Keys
that this version does not know are ignored, and absent ones have their defaults.
"""

from __future__ import annotations

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.reasons import Reason

MOST_PODS = 8
"""How many pods a report names at most: those that wait the largest part of their time."""
OWN_REASONS = frozenset({Reason.OWN_QUOTA_THROTTLES, Reason.OWN_THREADS_WAIT})
"""Verdicts on pods that hold themselves back. A report of no other is written every 10 minutes."""


class SuspectReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A neighbor, and what speaks for and against it as the antagonist.

    ``share``: the part of the pod's wait that its usage explains; ``slowdown``: the part of the time in which
    the pod wants to run that it waits for this neighbor. ``used`` and ``wanted`` are CPUs, ``request``
    too; it is None for processes outside pods. ``correlation``: -1 to 1, None where its usage hardly varies.
    """

    name: str
    share: float
    slowdown: float
    used: float
    wanted: float
    request: float | None = None
    correlation: float | None = None


class WaitingReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A pod that waits for CPUs, and the verdict.

    ``reason`` is a reason code. ``used``, ``waited``, ``among_itself`` and ``throttled`` are CPU seconds per
    second: what it ran, waited for others, waited for its own threads, and was kept from by its quota.
    ``samples`` over ``seconds`` are behind it. ``since`` is RFC 3339. ``suspects``: the most likely first.
    """

    pod: str
    uid: str
    reason: str
    used: float
    waited: float
    among_itself: float = 0.0
    throttled: float = 0.0
    samples: int = 0
    seconds: float = 0.0
    since: str = ""
    suspects: list[SuspectReport] = msgspec.field(default_factory=list)


class InterferenceReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """All pods of a node that wait. ``time`` is RFC 3339, of the last look; ``watched`` counts pods.

    ``sources`` are the counts of the kernel that waits are read from. ``unknown`` counts the pods whose
    wait the kernel does not tell, ``left_out`` those that wait and did not find room in the report.
    """

    time: str
    watched: int
    sources: list[str] = msgspec.field(default_factory=list)
    unknown: int = 0
    left_out: int = 0
    pods: list[WaitingReport] = msgspec.field(default_factory=list)

    def encode(self) -> str:
        """Return the annotation's text."""
        return msgspec.json.encode(self).decode()


_DECODER = msgspec.json.Decoder(InterferenceReport)


def decode(text: str) -> InterferenceReport | None:
    """Read the annotation; None if it is not a report, whatever else it is."""
    try:
        return _DECODER.decode(text)
    except UNREADABLE:
        return None

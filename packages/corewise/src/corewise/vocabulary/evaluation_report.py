"""The agent's measurement of its node's CPUs: the annotation ``node.corewise.io/cpu-evaluation``.

It stands on the NodeResourceTopology. Scores are of one CPU while the rest of the node is nearly idle, so
only the ratio to another report of the same mix means anything, and none to ``corewise calibrate``'s scores
of all CPUs. Keys that this version does not know are ignored, and absent ones have their defaults.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from corewise.vocabulary.errors import UNREADABLE

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""Whoever may write the annotation may write any number; this one is exact as a float too."""


class EvaluationReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The score of one node, and what it was measured on.

    ``score``, ``integer``, ``float`` and ``memory`` are medians of ``runs`` runs, in the unit of
    :class:`corewise.normalization.calibration.CalibrationScore`; 0 while there is none. ``spread`` is the
    width of the middle half of the runs over their median, in basis points. ``measured`` (RFC 3339) is the
    time of the newest run, ``measured_since`` that of the oldest, "" if unknown. ``reason`` is the reason
    code if the node cannot be measured at ``time``, ``message`` says why. ``frequency`` is the largest
    frequency of the CPU in kHz, 0 if unknown.
    """

    time: str
    cpu_model: str
    vendor_id: str = msgspec.field(default="", name="vendorID")
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    online_cpus: Count = msgspec.field(default=0, name="onlineCPUs")
    frequency: Count = msgspec.field(default=0, name="frequencyKHz")
    kernel: str = ""
    microcode: str = ""
    architecture: str = ""
    python: str = ""
    zlib: str = ""
    mix: Count = 0
    score: Count = 0
    integer: Count = 0
    float: Count = 0
    memory: Count = 0
    spread: Count = msgspec.field(default=0, name="spreadBasisPoints")
    runs: Count = 0
    measured: str = ""
    measured_since: str = ""
    reason: str = ""
    message: str = ""

    def encode(self) -> str:
        """Return the annotation's text."""
        return msgspec.json.encode(self).decode()


_DECODER = msgspec.json.Decoder(EvaluationReport)


def decode(text: str) -> EvaluationReport | None:
    """Read the annotation; None if it is not a report, whatever else it is."""
    try:
        return _DECODER.decode(text)
    except UNREADABLE:
        return None

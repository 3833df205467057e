"""The agent's measurement of its node's CPUs: the annotation ``node.corewise.io/cpu-evaluation``.

It stands on the NodeResourceTopology. Scores are of one CPU while the rest of the node is nearly idle, so
only the ratio to another report of the same mix means anything, and none to ``corewise calibrate``'s scores
of all CPUs. Keys that this version does not know are ignored, and absent ones have their defaults.
"""

from __future__ import annotations

import msgspec

from corewise.vocabulary.errors import UNREADABLE


class EvaluationReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The score of one node, and what it was measured on.

    ``score``, ``integer``, ``float`` and ``memory`` are medians of ``runs`` runs, in the unit of
    :class:`corewise.normalization.calibration.CalibrationScore`; 0 while there is none. ``spread`` is the
    width of the middle half of the runs over their median, in basis points. ``measured`` (RFC 3339) is the
    time of the newest run. ``reason`` is the reason code if the node cannot be measured at ``time``,
    ``message`` says why. ``frequency`` is the largest frequency of the CPU in kHz, 0 if unknown.
    """

    time: str
    cpu_model: str
    vendor_id: str = msgspec.field(default="", name="vendorID")
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    online_cpus: int = msgspec.field(default=0, name="onlineCPUs")
    frequency: int = msgspec.field(default=0, name="frequencyKHz")
    kernel: str = ""
    microcode: str = ""
    architecture: str = ""
    python: str = ""
    zlib: str = ""
    mix: int = 0
    score: int = 0
    integer: int = 0
    float: int = 0
    memory: int = 0
    spread: int = msgspec.field(default=0, name="spreadBasisPoints")
    runs: int = 0
    measured: str = ""
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

"""The annotations of a node that is amplified, as the rule of amplification writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from corewise.vocabulary import names

Pairs = Mapping[str, tuple[str, str]]
"""Resource -> raw and applied amount."""


def recorded(capacity: Pairs, allocatable: Pairs | None = None, *, generation: str = "1") -> dict[str, str]:
    """Return the record and Koordinator's annotations; allocatable is as capacity unless it is given."""
    notes = {names.RECORD_GENERATION: generation}
    fields = {"capacity": capacity, "allocatable": capacity if allocatable is None else allocatable}
    koordinators = {"capacity": names.RAW_CAPACITY, "allocatable": names.RAW_ALLOCATABLE}
    for field, pairs in fields.items():
        for resource, (raw, applied) in pairs.items():
            notes[names.recorded_raw(field, resource)] = raw
            notes[names.recorded_applied(field, resource)] = applied
        if pairs:
            raws = {resource: raw for resource, (raw, _) in sorted(pairs.items())}
            notes[koordinators[field]] = json.dumps(raws, separators=(",", ":"))
    return notes

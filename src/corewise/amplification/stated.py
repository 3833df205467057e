"""What the annotations of a node state, read together: the ratio, the record and the raw amounts.

Doubt. A record that cannot be used (damaged, or contradicted by a raw annotation), or without a record a raw
annotation that cannot be read, leaves open which amounts in status are amplified. The amounts in doubt are
then those of the resources that the ratio, a raw annotation or the rest of the record names; nothing is
computed from them until kubelet states them all anew or the manager repairs the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    FIELDS,
    MAXIMUM,
    Amounts,
    Field,
    Finding,
    Ratios,
    ResourceList,
)
from corewise.amplification.record import (
    RAW_ANNOTATIONS,
    RatioReading,
    Record,
    UnusableRecord,
    read_amounts,
    read_ratios,
    read_record,
)
from corewise.quantities import ONE, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class Stated:
    """The annotations of a node.

    ``record`` is None without a usable one; ``doubt`` then says whether there is something unusable.
    ``raw`` are the raw annotations as far as they can be read, ``unreadable`` those that are there and
    cannot; ``broken`` is the unusable record.
    """

    ratios: RatioReading
    record: Record | None
    raw: Mapping[Field, ResourceList]
    doubt: Finding | None = None
    broken: UnusableRecord | None = None
    unreadable: frozenset[Field] = frozenset()

    def ratio(self, resource: str) -> Ratio | None:
        """Return the ratio in force: the annotation's, the record's if that is bad, else None: unknown."""
        if not self.ratios.is_bad(resource):
            return self.ratios.ratios.get(resource, ONE)
        return self.record.ratios.get(resource) if self.record else None

    def is_doubtful(self, field: Field, resource: str, *, amplify_capacity: bool) -> bool:
        """Whether, given doubt, this amount in status may be an amplified one."""
        recorded = self.broken.applied.of(field) if self.broken else {}
        if self.broken is not None and (resource in self.raw[field] or resource in recorded):
            return True
        if self.broken is None and field not in self.unreadable:
            return False  # Rule 4 of the webhook tells what is raw.
        if self.raw[field] or self.is_record_readable:
            return False  # What is known of this field names other resources.
        if field == "capacity" and not amplify_capacity:
            return False
        return resource in self.ratios.texts or any(resource in amounts for amounts in self.raw.values())

    @property
    def is_record_readable(self) -> bool:
        """Whether an unusable record says at least which amounts it is about."""
        return self.broken is not None and bool(self.broken.ratios)

    def known_raw(self, amounts: Amounts) -> Amounts:
        """Return the raw cpu and memory behind the amounts in status, as far as the annotations tell."""
        return Amounts(*(self._known_raw(amounts, field) for field in FIELDS))

    def _known_raw(self, amounts: Amounts, field: Field) -> ResourceList:
        stated = {name: amount for name, amount in amounts.of(field).items() if name in AMPLIFIABLE}
        recorded = self.record.raw.of(field) if self.record else {}
        return {
            name: recorded.get(name, self.raw[field].get(name, amount)) for name, amount in stated.items()
        }


def read_node(annotations: Mapping[str, str], *, maximum: Ratio = MAXIMUM) -> Stated:
    """Read the annotations of a node."""
    ratios = read_ratios(
        annotations.get(names.AMPLIFICATION_RATIO), annotation=names.AMPLIFICATION_RATIO, maximum=maximum
    )
    record = read_record(annotations)
    raw: Mapping[Field, ResourceList] = {
        field: read_amounts(annotations.get(name)) or {} for field, name in RAW_ANNOTATIONS.items()
    }
    if isinstance(record, UnusableRecord):
        return Stated(ratios, None, raw, record.finding, record)
    unreadable = frozenset(
        field for field in FIELDS if RAW_ANNOTATIONS[field] in annotations and not raw[field]
    )
    if record is None and unreadable:
        message = (
            f"the {min(unreadable)} amounts in the raw annotation cannot be read, and there is no record"
        )
        finding = Finding(Reason.RECORD_UNUSABLE, message)
        return Stated(ratios, None, raw, finding, unreadable=unreadable)
    return Stated(ratios, record, raw)


def effective_ratios(annotations: Mapping[str, str], *, maximum: Ratio = MAXIMUM) -> Ratios:
    """Return the ratios above 1.00 in force on a node: a bad entry leaves the record's in force."""
    reading = read_ratios(
        annotations.get(names.AMPLIFICATION_RATIO), annotation=names.AMPLIFICATION_RATIO, maximum=maximum
    )
    record = read_record(annotations) if any(reading.is_bad(each) for each in AMPLIFIABLE) else None
    stated = Stated(reading, record if isinstance(record, Record) else None, {})
    known = {resource: stated.ratio(resource) or ONE for resource in AMPLIFIABLE}
    return {resource: ratio for resource, ratio in known.items() if ratio != ONE}


def raw_amounts(amounts: Amounts, annotations: Mapping[str, str]) -> Amounts:
    """Return the raw cpu and memory behind the amounts in status, as far as the annotations tell."""
    return read_node(annotations).known_raw(amounts)

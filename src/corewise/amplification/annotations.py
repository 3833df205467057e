"""The annotations of amplification, read and written: ratio, raw amounts, and record of what was applied.

    node.koordinator.sh/resource-amplification-ratio   {"cpu":1.50}
    node.koordinator.sh/raw-capacity, raw-allocatable  {"cpu":"48","memory":"196608Mi"}
    node.corewise.io/amplified, the record             {"ratio":{"cpu":1.50},
                                                        "capacity":{"cpu":"72"},"allocatable":{"cpu":"70500m"}}

Anybody may write anything there. Reading never raises: it returns what is good, and findings for what is not.
Numbers are read as decimals and printed as text; no binary float takes part.

Doubt. A record that cannot be used (damaged, or contradicted by a raw annotation), or without a record a raw
annotation that cannot be read, leaves open which amounts in status are amplified. The amounts in doubt are
then those of the resources that the ratio, a raw annotation or the rest of the record names; nothing is
computed from them until kubelet states them all anew or the manager repairs the node.

Texts that were read are cached: the nodes of a kind share theirs, and each is read again at every assessment
and at every write of its kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    FIELDS,
    MAXIMUM,
    Finding,
    NodeAmounts,
    Ratios,
    ResourceList,
    StatusField,
    amplified,
    raw_from,
)
from corewise.quantities import ONE, Quantity, QuantityError, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.reasons import Reason

RAW_ANNOTATIONS: Final[Mapping[StatusField, str]] = MappingProxyType(
    {"capacity": names.RAW_CAPACITY, "allocatable": names.RAW_ALLOCATABLE}
)
_SHOWN: Final = 80
_REMEMBERED: Final = 4096
_LARGEST_RECORDED: Final = 10**6

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RatioReading:
    """What a ratio annotation says.

    ``ratios`` are the good entries, 1.00 among them. ``texts`` are all entries as they stand there, so that
    one can be kept as it is. ``readable`` is false if the text is no JSON object at all.
    """

    ratios: Ratios
    texts: Mapping[str, str]
    findings: tuple[Finding, ...]
    readable: bool

    def is_bad(self, resource: str) -> bool:
        """Whether it cannot be told which ratio is meant for a resource."""
        return not self.readable or (resource in self.texts and resource not in self.ratios)


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a node's amounts: what was applied, by which ratio, and the raw amounts behind it.

    For every resource of ``applied`` there is one in ``raw`` and in ``ratios``, and
    applied = floor(raw x ratio). All ratios are above 1.00.
    """

    ratios: Ratios
    applied: NodeAmounts
    raw: NodeAmounts


@dataclass(frozen=True, slots=True)
class UnusableRecord:
    """A record that is there but cannot be used; ``ratios`` and ``applied`` are what could still be read."""

    finding: Finding
    ratios: Ratios
    applied: NodeAmounts


class _RecordText(msgspec.Struct, frozen=True):
    ratio: dict[str, Decimal]
    capacity: dict[str, msgspec.Raw]
    allocatable: dict[str, msgspec.Raw]


@lru_cache(maxsize=_REMEMBERED)
def read_ratios(text: str | None, *, annotation: str, maximum: Ratio = MAXIMUM) -> RatioReading:
    """Read a ratio annotation; an absent one says nothing and is readable."""
    if text is None:
        return RatioReading({}, {}, (), readable=True)
    raw = _decode(text, dict[str, msgspec.Raw])
    if raw is None:
        message = f'annotation {annotation} is not a JSON object such as {{"cpu":1.50}}: {text[:_SHOWN]!r}'
        finding = Finding(Reason.AMPLIFICATION_RATIO_INVALID, message)
        return RatioReading({}, {}, (finding,), readable=False)
    texts = {resource: _text(entry) for resource, entry in raw.items()}
    read = {resource: _read_entry(resource, entry, maximum) for resource, entry in texts.items()}
    findings = tuple(
        _entry_finding(reason, annotation, resource, texts[resource], maximum)
        for resource, reason in read.items()
        if isinstance(reason, Reason)
    )
    ratios = {resource: ratio for resource, ratio in read.items() if isinstance(ratio, Ratio)}
    return RatioReading(ratios, texts, findings, readable=True)


def _read_entry(resource: str, text: str, maximum: Ratio) -> Ratio | Reason:
    if resource not in AMPLIFIABLE:
        return Reason.AMPLIFICATION_RESOURCE_REFUSED
    number = None if text.startswith('"') else _decode(text, Decimal)
    if number is None:
        return Reason.AMPLIFICATION_RATIO_INVALID
    # Compared before rounding: 0.999 is below 1.00 too.
    if number < 1:
        return Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE
    if number > Decimal(str(maximum)):
        return Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE
    return Ratio.rounded(number)


def _entry_finding(reason: Reason, annotation: str, resource: str, text: str, maximum: Ratio) -> Finding:
    what = {
        Reason.AMPLIFICATION_RESOURCE_REFUSED: "only cpu and memory can be amplified; remove this entry",
        Reason.AMPLIFICATION_RATIO_INVALID: f"{text[:_SHOWN]} is not a ratio; write a number such as 1.50",
    }.get(reason, f"{text[:_SHOWN]} is outside 1.00..{maximum}")
    return Finding(reason, f"{annotation}: {resource}: {what}", resource)


def print_ratios(ratios: Ratios) -> str:
    """Print ratios as the annotation has them: ``{"cpu":1.50,"memory":1.20}``."""
    return print_entries({resource: str(ratio) for resource, ratio in ratios.items()})


def print_entries(entries: Mapping[str, str]) -> str:
    """Print a JSON object whose values are JSON texts already."""
    return "{" + ",".join(f"{_quoted(name)}:{text}" for name, text in sorted(entries.items())) + "}"


@lru_cache(maxsize=_REMEMBERED)
def read_amounts(text: str | None) -> ResourceList | None:
    """Read a JSON ResourceList: its cpu and memory. None if it is absent or not one."""
    raw = None if text is None else _decode(text, dict[str, msgspec.Raw])
    return None if raw is None else _amounts(raw)


def _amounts(raw: Mapping[str, msgspec.Raw]) -> ResourceList | None:
    amounts = {resource: _quantity(_text(raw[resource])) for resource in AMPLIFIABLE if resource in raw}
    good = {resource: amount for resource, amount in amounts.items() if amount is not None}
    return good if len(good) == len(amounts) else None


def _quantity(text: str) -> Quantity | None:
    """Read a quantity, a string or a bare number in JSON, as the API does."""
    stated = _decode(text, str) if text.startswith('"') else text
    try:
        amount = Quantity.parse(stated or "")
    except QuantityError:
        return None
    return amount if amount.nano >= 0 else None


def print_amounts(amounts: ResourceList) -> str:
    """Print amounts as a JSON ResourceList."""
    return print_entries({resource: _quoted(str(amount)) for resource, amount in amounts.items()})


def read_record(annotations: Mapping[str, str]) -> Record | UnusableRecord | None:
    """Read the record together with the raw annotations; None if the node has no record.

    A raw annotation that is absent or unreadable is computed from the record. One that contradicts the record
    makes it unusable: either of the two may be the forged one.
    """
    text = annotations.get(names.AMPLIFIED)
    if text is None:
        return None
    return _read_record(text, *(annotations.get(name) for name in RAW_ANNOTATIONS.values()))


@lru_cache(maxsize=_REMEMBERED)
def _read_record(text: str, *raw_texts: str | None) -> Record | UnusableRecord:
    stated = _decode(text, _RecordText)
    ratios = _recorded_ratios(stated.ratio) if stated else None
    capacity = _amounts(stated.capacity) if stated else None
    allocatable = _amounts(stated.allocatable) if stated else None
    if not ratios or capacity is None or allocatable is None or ratios.keys() != {*capacity, *allocatable}:
        return _unusable(f"annotation {names.AMPLIFIED} is no record of corewise's: {text[:_SHOWN]!r}")
    return _with_raw(ratios, NodeAmounts(capacity, allocatable), dict(zip(FIELDS, raw_texts, strict=True)))


def _recorded_ratios(stated: Mapping[str, Decimal]) -> Ratios | None:
    if not all(1 < number < _LARGEST_RECORDED and number * 100 % 1 == 0 for number in stated.values()):
        return None
    return {resource: Ratio(int(number * 100)) for resource, number in stated.items()}


def _with_raw(
    ratios: Ratios, applied: NodeAmounts, raw_texts: Mapping[StatusField, str | None]
) -> Record | UnusableRecord:
    raw: dict[StatusField, dict[str, Quantity]] = {"capacity": {}, "allocatable": {}}
    for field in FIELDS:
        stated = read_amounts(raw_texts[field]) or {}
        for resource, amount in applied.of(field).items():
            ratio = ratios[resource]
            origin = stated[resource] if resource in stated else raw_from(resource, amount, ratio)
            if amplified(resource, origin, ratio) != amount:
                message = (
                    f"annotations {names.AMPLIFIED} and {RAW_ANNOTATIONS[field]} contradict each other: "
                    f"{resource} {origin} x {ratio} is not {amount}"
                )
                return _unusable(message, ratios, applied)
            raw[field][resource] = origin
    return Record(ratios, applied, NodeAmounts(raw["capacity"], raw["allocatable"]))


def _unusable(
    message: str, ratios: Ratios | None = None, applied: NodeAmounts | None = None
) -> UnusableRecord:
    finding = Finding(Reason.RECORD_UNUSABLE, message)
    return UnusableRecord(finding, ratios or {}, applied or NodeAmounts({}, {}))


def print_record(ratios: Ratios, applied: NodeAmounts) -> str:
    """Print a record."""
    parts = {
        "ratio": print_ratios(ratios),
        "capacity": print_amounts(applied.capacity),
        "allocatable": print_amounts(applied.allocatable),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"


def _decode(text: str, form: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.MsgspecError, DecimalException, UnicodeError, RecursionError):
        return None


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode().strip()


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


@dataclass(frozen=True, slots=True)
class Stated:
    """The annotations of a node.

    ``record`` is None without a usable one; ``doubt`` then says whether there is something unusable.
    ``raw`` are the raw annotations as far as they can be read, ``unreadable`` those that are there and
    cannot; ``broken`` is the unusable record.
    """

    ratios: RatioReading
    record: Record | None
    raw: Mapping[StatusField, ResourceList]
    doubt: Finding | None = None
    broken: UnusableRecord | None = None
    unreadable: frozenset[StatusField] = frozenset()

    def ratio(self, resource: str) -> Ratio | None:
        """Return the effective ratio: the annotation's, the record's if that is bad, else None: unknown."""
        if not self.ratios.is_bad(resource):
            return self.ratios.ratios.get(resource, ONE)
        return self.record.ratios.get(resource) if self.record else None

    def is_doubtful(self, field: StatusField, resource: str, *, amplify_capacity: bool) -> bool:
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

    def known_raw(self, amounts: NodeAmounts) -> NodeAmounts:
        """Return the raw cpu and memory behind the amounts in status, as far as the annotations tell."""
        return NodeAmounts(*(self._known_raw(amounts, field) for field in FIELDS))

    def _known_raw(self, amounts: NodeAmounts, field: StatusField) -> ResourceList:
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
    raw: Mapping[StatusField, ResourceList] = {
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
    """Return the effective ratios above 1.00 of a node: a bad entry leaves the record's."""
    reading = read_ratios(
        annotations.get(names.AMPLIFICATION_RATIO), annotation=names.AMPLIFICATION_RATIO, maximum=maximum
    )
    record = read_record(annotations) if any(reading.is_bad(each) for each in AMPLIFIABLE) else None
    stated = Stated(reading, record if isinstance(record, Record) else None, {})
    known = {resource: stated.ratio(resource) or ONE for resource in AMPLIFIABLE}
    return {resource: ratio for resource, ratio in known.items() if ratio != ONE}


def raw_amounts(amounts: NodeAmounts, annotations: Mapping[str, str]) -> NodeAmounts:
    """Return the raw cpu and memory behind the amounts in status, as far as the annotations tell."""
    return read_node(annotations).known_raw(amounts)

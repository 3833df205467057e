"""The annotations of amplification, read and written.

    node.koordinator.sh/resource-amplification-ratio   {"cpu":1.50}
    node.corewise.io/raw-capacity-cpu                  48      the record: for each amount in status, the raw
    node.corewise.io/applied-capacity-cpu              72      one and what was written instead of it
    node.corewise.io/record-generation                 7       grows whenever the record changes
    node.corewise.io/amplify-capacity                  false   capacity is not amplified; absent: it is
    node.corewise.io/owned-milli-cpu                   4000    CPUs that pods own
    node.corewise.io/owned-request-milli-cpu           9000    what these pods request; absent: as much
    node.koordinator.sh/raw-capacity, raw-allocatable  {"cpu":"48","memory":"192Gi"}: Koordinator's

Anybody may write anything there. Reading never raises: it returns what is good, and findings for what is not.

The policy in the API server reads the same annotations with regular expressions, for want of a JSON parser.
So one grammar holds for both: a flat JSON object without escapes, of at most ``LONGEST`` characters; its
first entry of a name counts. The patterns below mean the same to Python and to RE2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from corewise.amplification.amounts import (
    AMPLIFIABLE,
    CPU,
    FIELDS,
    MAXIMUM,
    NodeAmounts,
    Ratios,
    ResourceList,
    StatusField,
    count,
    quantity,
)
from corewise.quantities import MILLI, ONE, Quantity, QuantityError, Ratio
from corewise.vocabulary import names
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise.vocabulary.text_cache import MIB, remembered, text_bytes

Cell: TypeAlias = tuple[StatusField, str]
"""One amount of a node's status: a field and a resource."""

CELLS: Final[tuple[Cell, ...]] = tuple((field, resource) for field in FIELDS for resource in AMPLIFIABLE)
RAW_ANNOTATIONS: Final[Mapping[StatusField, str]] = MappingProxyType(
    {"capacity": names.RAW_CAPACITY, "allocatable": names.RAW_ALLOCATABLE}
)
RECORD: Final = tuple(
    name for cell in CELLS for name in (names.recorded_raw(*cell), names.recorded_applied(*cell))
)
"""The annotations that make the record."""

UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"Pi": 2**50, "Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}
)
LONGEST: Final = 1000
AMOUNT: Final = r"[0-9]{1,18}([.][0-9]{1,9})?([KMGTPE]i|[eE][0-9]|[numkMGTPE])?"
NUMBER: Final = r"(0|[1-9][0-9]{0,5})([.][0-9]{1,30})?"
INTEGER: Final = r"[0-9]{1,12}"
SPACE: Final = r"[ \t\n\r]*"
_NAME: Final = r'"[^"\\]*"'
SCALAR: Final = rf'({_NAME}|[^"\\,:{{}}\[\] \t\n\r]+)'
_ENTRY: Final = rf"{_NAME}{SPACE}:{SPACE}{SCALAR}{SPACE}"
FLAT_OBJECT: Final = rf"{SPACE}[{{]{SPACE}({_ENTRY}(,{SPACE}{_ENTRY})*)?[}}]{SPACE}"

_SHOWN: Final = 80
LARGEST_RECORDED: Final = Ratio(10**6)
_REMEMBERED: Final = 4 * MIB
_NODES_REMEMBERED: Final = 24 * MIB
"""The memory for the annotations read lately; those of one node take 4 to 5 KB."""
_ENTRY_BYTES: Final = 256
_FINDING_BYTES: Final = 512
_READING_BYTES: Final = 400
_KNOWN_BYTES: Final = 400
_AMOUNT = re.compile(AMOUNT)
_NUMBER = re.compile(NUMBER)
_INTEGER = re.compile(INTEGER)
_FLAT_OBJECT = re.compile(FLAT_OBJECT)
_ENTRIES = re.compile(rf'"(?P<name>[^"\\]*)"{SPACE}:{SPACE}(?P<value>{SCALAR})')


@dataclass(frozen=True, slots=True)
class RatioReading:
    """The content of a ratio annotation.

    ``ratios`` are the good entries, 1.00 among them. ``texts`` are all entries as they stand there, so that
    one can be kept as it is. ``readable`` is false if the text is not a flat JSON object at all.
    """

    ratios: Ratios
    texts: Mapping[str, str]
    findings: tuple[Finding, ...]
    readable: bool

    def is_bad(self, resource: str) -> bool:
        """Whether it cannot be told which ratio is meant for a resource."""
        return not self.readable or (resource in self.texts and resource not in self.ratios)


def read_ratios(text: str | None, *, annotation: str, maximum: Ratio = MAXIMUM) -> RatioReading:
    """Read a ratio annotation; an absent one says nothing and is readable. Further decimals are cut off."""
    return _read_ratios(text, annotation, maximum)


def _reading_bytes(reading: RatioReading, text: str | None, *_: object) -> int:
    """Return at most how many bytes a reading takes, with the text that was read."""
    parts = _ENTRY_BYTES * len(reading.texts) + _FINDING_BYTES * len(reading.findings)
    return 2 * text_bytes(text) + parts + _READING_BYTES


@remembered(most=_REMEMBERED, weigh=_reading_bytes)
def _read_ratios(text: str | None, annotation: str, maximum: Ratio) -> RatioReading:
    if text is None:
        return RatioReading({}, {}, (), readable=True)
    texts = _entries(text)
    if texts is None:
        message = f'annotation {annotation} is not a JSON object such as {{"cpu":1.50}}: {text[:_SHOWN]!r}'
        finding = Finding(Reason.AMPLIFICATION_RATIO_INVALID, message)
        return RatioReading({}, {}, (finding,), readable=False)
    read = {resource: _read_entry(resource, entry, maximum) for resource, entry in texts.items()}
    findings = tuple(
        _entry_finding(reason, annotation, resource, texts[resource], maximum)
        for resource, reason in read.items()
        if isinstance(reason, Reason)
    )
    ratios = {resource: ratio for resource, ratio in read.items() if isinstance(ratio, Ratio)}
    return RatioReading(ratios, texts, findings, readable=True)


def _entries(text: str) -> dict[str, str] | None:
    """Return name -> JSON text of the value; None if the text is not a flat JSON object."""
    if len(text) > LONGEST or not _FLAT_OBJECT.fullmatch(text):
        return None
    entries: dict[str, str] = {}
    for match in _ENTRIES.finditer(text):
        entries.setdefault(match["name"], match["value"])
    return entries


def _read_entry(resource: str, text: str, maximum: Ratio) -> Ratio | Reason:
    if resource not in AMPLIFIABLE:
        return Reason.AMPLIFICATION_RESOURCE_REFUSED
    if not _NUMBER.fullmatch(text):
        return Reason.AMPLIFICATION_RATIO_INVALID
    whole, _, fraction = text.partition(".")
    ratio = Ratio(int(whole) * 100 + int((fraction + "00")[:2]))
    if ratio < ONE:
        return Reason.AMPLIFICATION_ORIGINAL_BELOW_ONE
    return Reason.AMPLIFICATION_RATIO_OUT_OF_RANGE if ratio > maximum else ratio


def _entry_finding(reason: Reason, annotation: str, resource: str, text: str, maximum: Ratio) -> Finding:
    entry = resource if resource in AMPLIFIABLE else repr(resource)
    what = {
        Reason.AMPLIFICATION_RESOURCE_REFUSED: "only cpu and memory can be amplified; remove this entry",
        Reason.AMPLIFICATION_RATIO_INVALID: f"{text[:_SHOWN]!r} is not a ratio; write a number such as 1.50",
    }.get(reason, f"{text[:_SHOWN]} is outside 1.00..{maximum}")
    return Finding(reason, f"{annotation}: {entry}: {what}", resource)


def print_ratios(ratios: Ratios) -> str:
    """Print ratios as the annotation has them: ``{"cpu":1.50,"memory":1.20}``."""
    return print_entries({resource: str(ratio) for resource, ratio in ratios.items()})


def print_entries(entries: Mapping[str, str]) -> str:
    """Print a JSON object whose values are JSON texts already."""
    return "{" + ",".join(f'"{name}":{text}' for name, text in sorted(entries.items())) + "}"


def _amounts_bytes(_amounts: object, text: str | None, *_: object) -> int:
    return text_bytes(text) + _READING_BYTES


@remembered(most=_REMEMBERED, weigh=_amounts_bytes)
def read_amounts(text: str | None) -> ResourceList | None:
    """Read a JSON ResourceList: its cpu and memory. None if it is absent, not one, or has a bad amount."""
    entries = None if text is None else _entries(text)
    if entries is None:
        return None
    amounts: dict[str, Quantity] = {}
    for name in AMPLIFIABLE:
        if name in entries:
            amount = _amount(entries[name].strip('"'))
            if amount is None or count(name, amount) is None:
                return None
            amounts[name] = amount
    return amounts


@remembered(most=_REMEMBERED, weigh=_amounts_bytes)
def _amount(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text) if _AMOUNT.fullmatch(text) else None
    except QuantityError:
        return None


def print_amounts(amounts: ResourceList) -> str:
    """Print amounts as a JSON ResourceList."""
    return print_entries({resource: f'"{amount}"' for resource, amount in amounts.items()})


def print_count(resource: str, counted: int) -> str:
    """Print so many milli-CPU or bytes as a quantity."""
    if resource == CPU:
        return f"{counted}m" if counted % MILLI else str(counted // MILLI)
    for suffix, unit in UNITS.items():
        if counted >= unit and counted % unit == 0:
            return f"{counted // unit}{suffix}"
    return str(counted)


@dataclass(frozen=True, slots=True)
class Known:
    """The annotations' knowledge of one amount, in milli-CPU or bytes.

    ``raw`` and ``applied``: the record, both or neither. ``broken`` says what is wrong with a record that
    contradicts itself. ``named`` is the amount in Koordinator's raw annotation; ``named_badly``: something
    stands there that cannot be read: ``bad_entry``, or the annotation as a whole.
    """

    raw: int | None = None
    applied: int | None = None
    broken: str = ""
    named: int | None = None
    named_badly: bool = False
    bad_entry: str = ""

    @property
    def is_nothing(self) -> bool:
        return self == _NOTHING


_NOTHING: Final = Known()


@dataclass(frozen=True, slots=True)
class Stated:
    """The annotations of a node."""

    ratios: RatioReading
    known: Mapping[Cell, Known]
    amplify_capacity: bool
    owned_milli: int
    owned_requests: int
    generation: str

    def ratio(self, resource: str) -> Ratio | None:
        """Return the ratio in force; None if it cannot be read."""
        return None if self.ratios.is_bad(resource) else self.ratios.ratios.get(resource, ONE)

    def factor(self, cell: Cell) -> Ratio | None:
        """Return the ratio by which one amount is to be amplified; None if it cannot be read."""
        field, resource = cell
        return self.ratio(resource) if field == "allocatable" or self.amplify_capacity else ONE

    def folded(self, cell: Cell, ratio: Ratio) -> int:
        """Return the surcharge of an amount for owned CPUs, which take more than their pods request.

        ceil(owned x ratio) - requests, at least 0, of allocatable cpu; 0 of the others.
        """
        if cell != ("allocatable", CPU):
            return 0
        return max(0, -(-self.owned_milli * ratio.hundredths // ONE.hundredths) - self.owned_requests)

    def recorded_ratio(self, resource: str) -> Ratio:
        """Return the ratio by which the record's amounts are amplified, 1.00 without a record.

        Where owned CPUs are folded in, that is (applied - requests) / (raw - owned); where their pods request
        more than they take, nothing is.
        """
        for field in FIELDS:
            known = self.known[field, resource]
            folds = (field, resource) == ("allocatable", CPU)
            owned, requests = (self.owned_milli, self.owned_requests) if folds else (0, 0)
            if known.raw is not None and known.applied is not None and known.applied > known.raw > owned:
                whole = -(-known.applied * 100 // known.raw)
                folded = -(-(known.applied - requests) * 100 // (known.raw - owned))
                return min(Ratio(max(whole, folded)), LARGEST_RECORDED)
        return ONE


_READ: Final = (
    *(names.AMPLIFICATION_RATIO, names.AMPLIFY_CAPACITY, names.RECORD_GENERATION),
    *(names.OWNED_MILLI_CPU, names.OWNED_REQUESTS),
    *(*RAW_ANNOTATIONS.values(), *RECORD),
)


def read_node(annotations: Mapping[str, str], *, maximum: Ratio = MAXIMUM) -> Stated:
    """Read the annotations of a node; those that say the same are read once."""
    return _read_texts(tuple(map(annotations.get, _READ)), maximum)


def read_node_in_force(annotations: Mapping[str, str]) -> Stated:
    """Read the annotations of a node without knowing the largest ratio that the manager allows.

    It is configurable: a cpu ratio above the default largest counts if the record shows that it was applied,
    else the recorded ratio does.
    """
    stated = read_node(annotations, maximum=LARGEST_RECORDED)
    recorded = stated.recorded_ratio(CPU)
    if stated.ratios.ratios.get(CPU, ONE) <= max(MAXIMUM, recorded):
        return stated
    return replace(stated, ratios=replace(stated.ratios, ratios={**stated.ratios.ratios, CPU: recorded}))


def _stated_bytes(stated: Stated, texts: tuple[str | None, ...], _maximum: Ratio) -> int:
    ratios = _reading_bytes(stated.ratios, None)
    return sum(map(text_bytes, texts)) + ratios + _KNOWN_BYTES * (len(CELLS) + 4)


@remembered(most=_NODES_REMEMBERED, weigh=_stated_bytes)
def _read_texts(texts: tuple[str | None, ...], maximum: Ratio) -> Stated:
    annotations = {name: text for name, text in zip(_READ, texts, strict=True) if text is not None}
    owned = _whole(annotations.get(names.OWNED_MILLI_CPU), 0)
    return Stated(
        ratios=read_ratios(
            annotations.get(names.AMPLIFICATION_RATIO), annotation=names.AMPLIFICATION_RATIO, maximum=maximum
        ),
        known={cell: _known(annotations, cell) for cell in CELLS},
        amplify_capacity=annotations.get(names.AMPLIFY_CAPACITY) != "false",
        owned_milli=owned,
        owned_requests=_whole(annotations.get(names.OWNED_REQUESTS), owned),
        generation=annotations.get(names.RECORD_GENERATION, ""),
    )


def _whole(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and _INTEGER.fullmatch(text) else otherwise


def _known(annotations: Mapping[str, str], cell: Cell) -> Known:
    field, resource = cell
    named = _named(annotations.get(RAW_ANNOTATIONS[field]), resource)
    notes = [names.recorded_raw(field, resource), names.recorded_applied(field, resource)]
    texts = [annotations.get(note) for note in notes]
    raw, applied = (None if text is None else count(resource, _amount(text)) for text in texts)
    if raw is None or applied is None:
        shown = ", ".join(
            f"{note} is {'absent' if text is None else repr(text[:_SHOWN])}"
            for note, text in zip(notes, texts, strict=True)
        )
        return Known(None, None, "" if texts == [None, None] else shown, *named)
    if applied < raw and cell != ("allocatable", CPU):
        shown = f"{notes[1]} {texts[1]} is less than {notes[0]} {texts[0]}"
        return Known(None, None, shown, *named)
    return Known(raw, applied, "", *named)


@remembered(most=_REMEMBERED, weigh=_amounts_bytes)
def _named(text: str | None, resource: str) -> tuple[int | None, bool, str]:
    """Return the amount that Koordinator's raw annotation states, if it is unreadable, and the bad entry."""
    if text is None:
        return None, False, ""
    entries = _entries(text)
    if entries is None:
        return None, True, ""
    if resource not in entries:
        return None, False, ""
    counted = count(resource, _amount(entries[resource].strip('"')))
    if counted is not None:
        return counted, False, ""
    written = re.search(rf'"{resource}"{SPACE}:{SPACE}{SCALAR}', text)
    return None, True, written[0] if written else ""


def effective_ratios(annotations: Mapping[str, str], *, maximum: Ratio = MAXIMUM) -> Ratios:
    """Return the ratios above 1.00 in force on a node: a bad entry leaves the record's in force."""
    stated = read_node(annotations, maximum=maximum)
    known = {resource: stated.ratio(resource) or stated.recorded_ratio(resource) for resource in AMPLIFIABLE}
    return {resource: ratio for resource, ratio in known.items() if ratio != ONE}


def raw_amounts(amounts: NodeAmounts, annotations: Mapping[str, str]) -> NodeAmounts:
    """Return the raw cpu and memory behind the amounts in status, if the annotations state them."""
    known = read_node(annotations).known
    return NodeAmounts(*(_raw_of(field, amounts, known) for field in FIELDS))


def _raw_of(field: StatusField, amounts: NodeAmounts, known: Mapping[Cell, Known]) -> ResourceList:
    stated = {name: amount for name, amount in amounts.of(field).items() if name in AMPLIFIABLE}
    return {name: known_raw(known[field, name], name) or amount for name, amount in stated.items()}


def known_raw(known: Known, resource: str) -> Quantity | None:
    """Return the raw amount that the annotations know: the record's, else the one Koordinator names."""
    counted = known.named if known.raw is None else known.raw
    return None if counted is None else quantity(resource, counted)

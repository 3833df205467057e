"""CPU facts: what a node's agent reports about its CPU, read from the NodeResourceTopology annotation.

The text is JSON: ``{"cpuModel","hyperThreadEnabled","turboEnabled","catL3CbmMask","vendorID"}``. Writers
leave out what is false or unknown, so an absent bool is false. Keys of other writers are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from corewise.config.json_text import Members, read_json
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import CPU_BASIC_INFO
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class CPUFacts:
    """The CPU of one node. ``l3_mask`` and ``vendor`` are empty where the node does not know them."""

    model: str
    hyper_threading: bool = False
    turbo: bool = False
    l3_mask: str = ""
    vendor: str = ""


def parse_cpu_basic_info(text: str) -> CPUFacts | Finding:
    """Read the annotation. Anything wrong with it is a Finding, never an exception."""
    reading = read_json(text)
    if reading.faults:
        fault = reading.faults[0]
        return _malformed(f"line {fault.line}, column {fault.column}: {fault.message}")
    members = reading.root.value if reading.root else None
    if not isinstance(members, Members):
        return _malformed("it is not a JSON object")
    stated: dict[str, Any] = {}
    for member in members:
        name, kind, expected = _MEMBERS.get(member.key, ("", object, ""))
        value = member.value.value
        if not name or value is None:
            continue
        if not isinstance(value, kind):
            return _malformed(f"{member.key} must be {expected}, not {_shown(value)}")
        stated[name] = value
    if not stated.get("model", "").strip():
        return Finding(Reason.CPU_FACTS_MISSING, f"annotation {CPU_BASIC_INFO} states no cpuModel")
    return CPUFacts(**stated)


def _malformed(what: str) -> Finding:
    return Finding(Reason.CPU_FACTS_MALFORMED, f"annotation {CPU_BASIC_INFO}: {what}")


_MEMBERS = {
    "cpuModel": ("model", str, "a string"),
    "hyperThreadEnabled": ("hyper_threading", bool, "true or false"),
    "turboEnabled": ("turbo", bool, "true or false"),
    "catL3CbmMask": ("l3_mask", str, "a string"),
    "vendorID": ("vendor", str, "a string"),
}


def _shown(value: object) -> str:
    match value:
        case str():
            return repr(value[:40])
        case bool():
            return str(value).lower()
        case Decimal():
            return str(value)[:40]
        case _:
            return "a list or an object"

"""``profiles``: types of workloads, what a pod of each uses, and which metrics weigh how heavily on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corewise.config.decoding import Decoder, Fields, Place
from corewise.config.interference.amounts import BANDWIDTH, BYTES, milli_cpus, whole_amount
from corewise.config.interference.model import (
    DEFAULT,
    Affinity,
    DefaultProfile,
    Metric,
    Profile,
    WorkloadProfile,
    equal_affinity,
)
from corewise.config.interference.strict import strict_fields, warn
from corewise.config.node_configs import read_label_selector
from corewise.vocabulary.selectors import LabelSelector, label_value_fault

_AMOUNTS = ("memoryBandwidth", "memory", "cpu", "llc")
_PER_CORE = "memoryBandwidthPerCore"
_IMPACT = "0 is no impact on the run time, 100 a very heavy one"


@dataclass(frozen=True, slots=True)
class Profiles:
    """What the section says of types of workloads."""

    default: DefaultProfile
    named: Mapping[str, WorkloadProfile]


def read_profiles(decoder: Decoder, place: Place) -> Profiles:
    """Read all entries; the one named ``default`` is of another form."""
    default = DefaultProfile()
    named: dict[str, WorkloadProfile] = {}
    for key, value in decoder.entries(place):
        name = str(key.path[-1])
        if name == DEFAULT:
            default = _default(decoder, key, value)
        else:
            named[name] = _workload(decoder, name, key, value)
    return Profiles(default, MappingProxyType(named))


def _workload(decoder: Decoder, name: str, key: Place, place: Place) -> WorkloadProfile:
    fault = label_value_fault(name) if name else "it is empty"
    if fault:
        decoder.tell(key, f"no pod can have this as the value of its type label: {fault}")
    if place.value is None:
        decoder.tell(key, "is empty: write profile and affinity")
    fields = strict_fields(decoder, place, ("profile", "affinity", "selector"))
    line, column = decoder.position(key)
    return WorkloadProfile(
        name=name,
        profile=_profile(decoder, fields["profile"]),
        affinity=_affinity(decoder, fields["affinity"]),
        selector=_selector(decoder, fields["selector"]),
        line=line,
        column=column,
    )


def _selector(decoder: Decoder, place: Place) -> LabelSelector | None:
    if place.value is None:
        return None
    before = len(decoder.problems)
    selector = read_label_selector(decoder, place, strict_fields)
    if not selector.requirements and len(decoder.problems) == before:
        warn(decoder, place, "selects every pod, so pods of all other types are in conflict with it")
    return selector


def _profile(decoder: Decoder, place: Place) -> Profile:
    if place.value is None:
        warn(decoder, place, "no profile: pods of this type are not filtered, and weigh nothing once placed")
    fields = strict_fields(decoder, place, _AMOUNTS)
    return Profile(
        memory_bandwidth=whole_amount(decoder, fields["memoryBandwidth"], BANDWIDTH) or 0,
        memory=whole_amount(decoder, fields["memory"], BYTES) or 0,
        cpu=milli_cpus(decoder, fields["cpu"]) or 0,
        llc=whole_amount(decoder, fields["llc"], BYTES) or 0,
    )


def _affinity(decoder: Decoder, place: Place) -> Affinity:
    fields = strict_fields(decoder, place, tuple(Metric))
    missing = [metric.value for metric in Metric if fields[metric].value is None]
    if missing:
        warn(decoder, place, f"{', '.join(missing)} missing: counts as 0, no impact")
    values = {metric: decoder.whole(fields[metric], 0, 100, _IMPACT) or 0 for metric in Metric}
    return MappingProxyType(values)


def _default(decoder: Decoder, key: Place, place: Place) -> DefaultProfile:
    fields = strict_fields(decoder, place, ("profile", "affinity"))
    amounts = strict_fields(decoder, fields["profile"], (*_AMOUNTS, _PER_CORE))
    _not_both(decoder, amounts)
    affinity = fields["affinity"]
    return DefaultProfile(
        bandwidth_per_core=whole_amount(decoder, amounts[_PER_CORE], BANDWIDTH) or 0,
        memory_bandwidth=whole_amount(decoder, amounts["memoryBandwidth"], BANDWIDTH),
        memory=whole_amount(decoder, amounts["memory"], BYTES),
        cpu=milli_cpus(decoder, amounts["cpu"]),
        llc=whole_amount(decoder, amounts["llc"], BYTES) or 0,
        affinity=equal_affinity() if affinity.value is None else _affinity(decoder, affinity),
        line=decoder.position(key)[0],
    )


def _not_both(decoder: Decoder, amounts: Fields) -> None:
    if amounts["memoryBandwidth"].value is not None and amounts[_PER_CORE].value is not None:
        decoder.tell(amounts[_PER_CORE], "stands beside memoryBandwidth: write one of the two")

"""What a pod was given: the annotation resource-status, which the binding gate writes.

``{"cpuset": "0-3", "numaNodeResources": [{"node": 0, "resources": {"cpu": "4", "memory": "8Gi"}}]}``

Amounts on NUMA nodes are the pod's own requests, not amplified. Unknown keys are passed over. CPUs that can
be read count even where the amounts cannot: nobody else must be given them.

Whoever may write the annotation chooses its text, so it is bounded: LONGEST_STATUS characters, CPUs that a
machine can have and each named once, NUMA nodes named once, amounts within what a machine can have. A text is
read once, however many pods state it and however often their readers ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import msgspec

from corewise.quantities import Quantity, QuantityError, largest
from corewise.topology import CPUSet, CPUSetError

LONGEST_STATUS = 4096
_LARGEST_NODE = 1023
_REMEMBERED = 2048


def _nothing() -> Mapping[int, Mapping[str, Quantity]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The CPUs a pod owns, and its amounts by NUMA node; either may be empty.

    ``problem``: what is wrong with the amounts, which are then empty.
    """

    cpus: CPUSet = field(default_factory=CPUSet)
    zones: Mapping[int, Mapping[str, Quantity]] = field(default_factory=_nothing)
    problem: str = ""


NO_STATUS = ResourceStatus()


class _Share(msgspec.Struct):
    node: int
    resources: dict[str, str | int] = {}


class _Status(msgspec.Struct):
    cpuset: str = ""
    shares: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="numaNodeResources")


class _Written(msgspec.Struct, omit_defaults=True):
    cpuset: str = ""
    shares: list[_Share] | None = msgspec.field(default=None, name="numaNodeResources")


_DECODER = msgspec.json.Decoder(_Status)
_SHARES = msgspec.json.Decoder(list[_Share] | None)


def parse_resource_status(text: str | None) -> ResourceStatus | str:
    """Read the annotation; a text whose CPUs cannot be read gives what is wrong with it."""
    if text is None:
        return NO_STATUS
    if len(text) > LONGEST_STATUS:
        return f"{len(text)} characters are more than the annotation may have ({LONGEST_STATUS})"
    return _parsed(text)


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> ResourceStatus | str:
    try:
        status = _DECODER.decode(text)
        cpus = CPUSet.parse_claim(status.cpuset)
    except (msgspec.DecodeError, RecursionError, CPUSetError) as error:
        return str(error)
    try:
        shares = _SHARES.decode(status.shares) or []
        zones = {share.node: _amounts(share) for share in shares}
        if len(zones) < len(shares):
            return ResourceStatus(cpus, problem="numaNodeResources names a NUMA node twice")
    except (msgspec.DecodeError, RecursionError, QuantityError) as error:
        return ResourceStatus(cpus, problem=str(error))
    return ResourceStatus(cpus, MappingProxyType(zones))


def stated_cpus(text: str | None) -> CPUSet:
    """Return the CPUs that the annotation names; none where they cannot be read."""
    status = parse_resource_status(text)
    return status.cpus if isinstance(status, ResourceStatus) else CPUSet()


def _amounts(share: _Share) -> Mapping[str, Quantity]:
    if not 0 <= share.node <= _LARGEST_NODE:
        raise QuantityError(f"{share.node} is not a NUMA node")
    amounts = {name: Quantity.parse(str(amount)) for name, amount in share.resources.items()}
    for name, amount in amounts.items():
        if amount > largest(name):
            raise QuantityError(f"{amount} of {name} is more than any machine has")
    return {name: amount for name, amount in amounts.items() if amount.nano > 0}


def print_resource_status(status: ResourceStatus) -> str:
    """Write the annotation."""
    shares = [
        _Share(node, {name: str(amount) for name, amount in sorted(amounts.items())})
        for node, amounts in sorted(status.zones.items())
    ]
    return msgspec.json.encode(_Written(str(status.cpus), shares or None)).decode()

"""The NUMA nodes of a guest: ``hw:numa_nodes``, ``hw:numa_cpus.N``, ``hw:numa_mem.N``, or those of an image.

Nodes without CPUs and memory of their own share both evenly, and must be able to. Else every node states
both, every guest CPU belongs to one node, and the memory adds up. A guest with dedicated CPUs has one node at
least. Flavor and image must not both speak of the same thing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from corewise.policy.guests import CPUPolicy, GuestNode
from corewise.policy.reasons import Reason
from corewise.topology import CPUSet, CPUSetError
from corewise.tracking.flavor import Flavor, Image, Refused, Written, in_flavor, in_image
from corewise.tracking.masks import all_cpus

T = TypeVar("T")

MOST_NODES = 128
_DIGITS = 9


def guest_nodes(flavor: Flavor, image: Image, policy: CPUPolicy, dedicated: CPUSet) -> tuple[GuestNode, ...]:
    """Return the guest's NUMA nodes; none if its CPUs float over the whole host."""
    wish = _one_of(flavor, image, "numa_nodes")
    if wish is None and policy is CPUPolicy.SHARED:
        return ()
    count = 1 if wish is None else _whole(wish)
    if not 1 <= count <= MOST_NODES:
        raise _invalid(f"{wish}: a guest has 1 to {MOST_NODES} NUMA nodes")
    cpus = _listed(flavor, image, "numa_cpus", count, _cpu_set)
    memory = _listed(flavor, image, "numa_mem", count, _whole)
    if cpus is None and memory is None:
        return _even(flavor, count, dedicated)
    if cpus is None or memory is None:
        raise _invalid("hw:numa_cpus.N and hw:numa_mem.N are stated for all NUMA nodes together, or for none")
    _check(flavor, cpus, memory)
    return tuple(GuestNode(own, own & dedicated, amount) for own, amount in zip(cpus, memory, strict=True))


def _invalid(message: str) -> Refused:
    return Refused(Reason.GUEST_NUMA_INVALID, message)


def _one_of(flavor: Flavor, image: Image, key: str) -> Written | None:
    ours, theirs = in_flavor(flavor, key), in_image(image, key)
    if ours is not None and theirs is not None:
        raise _invalid(f"{ours}: the image must not state it too ({theirs})")
    return ours or theirs


def _listed(
    flavor: Flavor, image: Image, key: str, count: int, read: Callable[[Written], T]
) -> list[T] | None:
    """Read ``key.0`` to ``key.<count - 1>``; None if there are none of them."""
    written = [_one_of(flavor, image, f"{key}.{node}") for node in range(count)]
    beyond = _one_of(flavor, image, f"{key}.{count}")
    if beyond is not None:
        raise _invalid(f"{beyond}: the guest has {count} NUMA nodes, numbered from 0")
    present = [each for each in written if each is not None]
    if present and len(present) != count:
        raise _invalid(f"hw:{key}.N is stated for {len(present)} of {count} NUMA nodes")
    return [read(each) for each in present] or None


def _whole(written: Written) -> int:
    text = written.value
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    raise _invalid(f"{written} is no whole number")


def _cpu_set(written: Written) -> CPUSet:
    try:
        return CPUSet.parse(written.value)
    except CPUSetError as error:
        raise _invalid(f"{written}: {error}") from error


def _even(flavor: Flavor, count: int, dedicated: CPUSet) -> tuple[GuestNode, ...]:
    if flavor.vcpus % count or flavor.ram % count:
        message = f"{flavor.vcpus} vcpus and {flavor.ram} MiB cannot be shared evenly by {count} NUMA nodes"
        raise _invalid(f"flavor {flavor.name}: {message}")
    each, memory = flavor.vcpus // count, flavor.ram // count
    parts = [CPUSet.of(range(node * each, (node + 1) * each)) for node in range(count)]
    return tuple(GuestNode(cpus, cpus & dedicated, memory) for cpus in parts)


def _check(flavor: Flavor, cpus: list[CPUSet], memory: list[int]) -> None:
    seen = CPUSet()
    for node, own in enumerate(cpus):
        outside, twice = own - all_cpus(flavor), own & seen
        if outside:
            raise _invalid(f"hw:numa_cpus.{node} names guest CPUs {outside}; there are {all_cpus(flavor)}")
        if twice:
            raise _invalid(f"hw:numa_cpus.{node} names guest CPUs {twice}, which belong to another node")
        seen |= own
    if seen != all_cpus(flavor):
        raise _invalid(f"guest CPUs {all_cpus(flavor) - seen} belong to no NUMA node (hw:numa_cpus.N)")
    if sum(memory) != flavor.ram:
        message = f"hw:numa_mem.N adds up to {sum(memory)} MiB, and the flavor has {flavor.ram} MiB"
        raise _invalid(message)

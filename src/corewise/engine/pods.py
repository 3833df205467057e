"""One pod as the engine reads it, and where it has been placed: values.

A pod owns CPUs by its QoS class on every node, or by a kubelet's static CPU manager on the nodes that run
one; :meth:`PodFacts.owned` tells how many milli-CPU of its request that are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from corewise.engine.nodes import CPU
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_binding import DEFAULT_BINDING, CPUBinding, NumaPolicy, SpecProblem

_EXISTS = "Exists"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; an empty key with Exists tolerates every taint, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Say whether it tolerates a taint, as k8s.io/api/core/v1 toleration.go does."""
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        if self.operator == _EXISTS:
            return True
        return bool(self.key) and self.value == value


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One condition on a label of the node, or on its name with ``field``.

    ``operator``: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    field: bool = False


Term = tuple[NodeRequirement, ...]
"""Requirements that must all hold; without any, a term matches no node."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where a pod may go whatever it requests, and where it would rather go; equal ones are decided once.

    ``affinity``: one of the terms must match; None: there is no affinity. ``preferred``: terms and weights.
    """

    node_name: str = ""
    selector: tuple[NodeRequirement, ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, Term], ...] = ()


UNCONSTRAINED = Constraints()


def _no_amounts() -> Mapping[str, int]:
    return MappingProxyType({})


def _no_labels() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_zones() -> Mapping[int, Mapping[str, int]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod. ``requests`` has positive amounts only: milli for cpu, units for everything else.

    ``owned_by_class`` and ``owned_if_static`` are 1000 x the CPUs that it is to own. ``problem``: why it fits
    no node at all. ``daemon``: it belongs to a DaemonSet, so it goes to the node that it was made for.
    """

    key: str
    requests: Mapping[str, int] = field(default_factory=_no_amounts)
    owned_by_class: int = 0
    owned_if_static: int = 0
    binding: CPUBinding = DEFAULT_BINDING
    numa_policy: NumaPolicy | None = None
    constraints: Constraints = UNCONSTRAINED
    problem: SpecProblem | None = None
    labels: Mapping[str, str] = field(default_factory=_no_labels)
    daemon: bool = False

    @property
    def cpu(self) -> int:
        return self.requests.get(CPU, 0)

    def owned(self, *, static_cpu_manager: bool) -> int:
        """Return how much of its request it owns on a node of this kind."""
        return self.owned_by_class or (self.owned_if_static if static_cpu_manager else 0)


@dataclass(frozen=True, slots=True)
class Placement:
    """A node, the CPUs the pod owns there, and its requests by NUMA node, as resource-status states them.

    ``since``: Unix time at which the pod was placed, where it is known.
    """

    node: str
    cpus: CPUSet = field(default_factory=CPUSet)
    zones: Mapping[int, Mapping[str, int]] = field(default_factory=_no_zones)
    since: float | None = None

    def since_earliest(self, since: float | None) -> Placement:
        """Return the same placement since the earlier of two times; None is a time not known."""
        if since is None or (self.since is not None and self.since <= since):
            return self
        return replace(self, since=since)

"""Topologies and disruption budgets of the API: the fields that the scheduler reads."""

from __future__ import annotations

from collections.abc import Mapping

from corewise.kube.objects import (
    EMPTY,
    NO_META,
    ObjectMeta,
    Struct,
    TopologyZone,
    share_annotations,
)
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, Resource


class ReportedTopology(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology."""

    metadata: ObjectMeta = NO_META
    topology_policies: tuple[str, ...] | None = ()
    zones: tuple[TopologyZone, ...] | None = ()

    def __post_init__(self) -> None:
        share_annotations(self.metadata)


class LabelRequirement(Struct, frozen=True):
    """meta/v1 LabelSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = ()


class BudgetSelector(Struct, frozen=True):
    """meta/v1 LabelSelector."""

    match_labels: Mapping[str, str] | None = EMPTY
    match_expressions: tuple[LabelRequirement, ...] | None = ()


class DisruptionBudgetSpec(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetSpec: the pods it protects."""

    selector: BudgetSelector | None = None


class DisruptionBudgetStatus(Struct, frozen=True):
    """policy/v1 PodDisruptionBudgetStatus: how many of these pods may be evicted now."""

    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str | None] | None = EMPTY


class DisruptionBudget(Struct, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = NO_META
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True, type=DisruptionBudget
)
TOPOLOGIES: Resource[ReportedTopology] = NODE_RESOURCE_TOPOLOGIES.typed(ReportedTopology)

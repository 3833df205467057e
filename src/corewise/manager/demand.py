"""From pods of the API to what they demand of their node, as ``amplification`` counts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

import msgspec

from corewise.amplification import ContainerDemand, NodeDemand, PodDemand, node_demand, pod_request
from corewise.amplification.amounts import AMPLIFIABLE, CPU, ResourceList
from corewise.manager.objects import DemandingContainer, DemandingPod, GrantedContainer
from corewise.quantities import Quantity, QuantityError, requested
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import CPU_MANAGER_POLICY, RESOURCE_STATUS
from corewise.vocabulary.qos import ANY_NAMESPACE
from corewise.vocabulary.resource_status import ResourceStatus, parse_resource_status


class _CPUManager(msgspec.Struct):
    policy: str = ""


_CPU_MANAGER = msgspec.json.Decoder(_CPUManager)


def quantities(texts: Mapping[str, str]) -> ResourceList:
    """Return cpu and memory that a node states; an amount that cannot be read counts as absent."""
    stated = {resource: _quantity(texts[resource]) for resource in AMPLIFIABLE if resource in texts}
    return {resource: amount for resource, amount in stated.items() if amount is not None}


def _stated(texts: Mapping[str, str]) -> ResourceList:
    """Return cpu and memory that a pod states; an amount that cannot be read counts as the largest."""
    return {resource: requested(resource, texts[resource]) for resource in AMPLIFIABLE if resource in texts}


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Quantity | None:
    """Read an amount once for all nodes that state it."""
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


def demand_of_node(
    pods: Iterable[DemandingPod], topology_annotations: Mapping[str, str] | None
) -> NodeDemand:
    """Sum up what the pods of one node demand of it."""
    static = _has_static_cpu_manager((topology_annotations or {}).get(CPU_MANAGER_POLICY, "{}"))
    return node_demand([demand_of(pod) for pod in pods], static_cpu_manager=static)


def demand_of(pod: DemandingPod) -> PodDemand:
    """Return what one pod demands."""
    granted = {each.name: each for each in pod.status.container_statuses}
    granted_init = {each.name: each for each in pod.status.init_container_statuses}
    demand = PodDemand(
        name=f"{pod.metadata.namespace}/{pod.metadata.name}",
        containers=tuple(_container(each, granted) for each in pod.spec.containers),
        init_containers=tuple(_container(each, granted_init) for each in pod.spec.init_containers),
        requests=_stated(pod.spec.resources.requests),
        overhead=_stated(pod.spec.overhead),
        labels=pod.metadata.labels,
        qos_class=pod.status.qos_class,
        phase=pod.status.phase,
    )
    return replace(demand, exclusive_cpus=_exclusive_cpus(pod, demand))


def _has_static_cpu_manager(text: str) -> bool:
    try:
        return _CPU_MANAGER.decode(text).policy == "static"
    except UNREADABLE:
        return False


def _container(container: DemandingContainer, granted: Mapping[str, GrantedContainer]) -> ContainerDemand:
    status = granted.get(container.name)
    return ContainerDemand(
        requests=_stated(container.resources.requests),
        allocated=_stated(status.allocated_resources) if status else {},
        restarts_always=container.restart_policy == "Always",
    )


def _exclusive_cpus(pod: DemandingPod, demand: PodDemand) -> frozenset[int]:
    """Return the CPUs that a pod claims, if it can be believed; LSE counts in every namespace."""
    status, meta = parse_resource_status(pod.metadata.annotations.get(RESOURCE_STATUS)), pod.metadata
    if not isinstance(status, ResourceStatus):
        return frozenset()
    request = pod_request(demand, CPU).milli
    doubted = ANY_NAMESPACE.claim_problem(meta.labels, meta.namespace, status.cpus, request)
    return frozenset() if doubted else status.cpus.cpus

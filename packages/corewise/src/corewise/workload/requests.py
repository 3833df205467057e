"""The requests of a pod, as manager, scheduler, agent and web count them.

Where a container states a limit alone, that is its request: the API server sets it so when it admits a pod.
An amount that cannot be read counts as the largest, so that the pod never fits by mistake.

While a container is resized in place, the largest counts of what its spec wants, what it runs with
(``resources`` of its status) and what kubelet has allocated, where kubelet states that. What the spec wants
is left out if kubelet says that the node can never carry it out. Source: k8s.io/component-helpers/resource,
PodRequests with UseStatusResources.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from corewise.amplification import ContainerDemand, PodDemand
from corewise.amplification.amounts import AMPLIFIABLE
from corewise.quantities import Quantity, requested, requested_amounts
from corewise.workload.pods import Container, GrantedContainer, Pod

Names: TypeAlias = Collection[str] | None
"""The resources to read; None for all."""


def pod_demand(pod: Pod, resources: Names = None) -> PodDemand:
    """Read the requests of a pod, and what else decides its demand on its node, without its claim to CPUs."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return PodDemand(
        name=f"{meta.namespace or 'default'}/{meta.name}",
        containers=_demands(pod, spec.containers, status.container_statuses, resources),
        init_containers=_demands(pod, spec.init_containers, status.init_container_statuses, resources),
        requests=_amounts(spec.resources.requests, resources),
        overhead=_amounts(spec.overhead, resources),
        labels=meta.labels,
        qos_class=status.qos_class or ("Guaranteed" if _is_guaranteed(pod) else ""),
        phase=status.phase,
    )


def container_requests(container: Container, resources: Names = None) -> dict[str, Quantity]:
    """Read a container's requests; where it states a limit alone, that is its request."""
    stated = container.resources
    return {**_amounts(stated.limits, resources), **_amounts(stated.requests, resources)}


def _demands(
    pod: Pod, containers: tuple[Container, ...], statuses: tuple[GrantedContainer, ...], resources: Names
) -> tuple[ContainerDemand, ...]:
    stated = {each.name: each for each in statuses}
    return tuple(_demand(pod, each, stated.get(each.name), resources) for each in containers)


def _demand(
    pod: Pod, container: Container, status: GrantedContainer | None, resources: Names
) -> ContainerDemand:
    """Read one container; of a resize that is infeasible, what the spec states does not count."""
    wanted = container_requests(container, resources)
    actual = status.resources if status else None
    granted = _amounts(actual.requests or {}, resources) if actual else {}
    for name, amount in _amounts(status.allocated_resources, resources).items() if status else ():
        granted[name] = max(amount, granted.get(name, amount))
    return ContainerDemand(
        requests=granted if actual and pod.is_infeasible else wanted,
        allocated=granted,
        restarts_always=container.restart_policy == "Always",
    )


def _amounts(texts: Mapping[str, str], resources: Names) -> dict[str, Quantity]:
    if resources is None:
        return requested_amounts(texts)
    return {name: requested(name, texts[name]) for name in resources if name in texts}


def _is_guaranteed(pod: Pod) -> bool:
    """Whether all containers have limits equal to their requests, for pods without a status."""

    def is_fixed(container: Container) -> bool:
        limits = _amounts(container.resources.limits, AMPLIFIABLE)
        requests = container_requests(container, AMPLIFIABLE)
        return all(name in limits and limits[name] == requests[name] for name in AMPLIFIABLE)

    everything = (*pod.spec.containers, *pod.spec.init_containers)
    return bool(everything) and all(map(is_fixed, everything))

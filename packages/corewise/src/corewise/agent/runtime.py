"""The agent's part in the container runtime (NRI): its answers, so that no container runs a moment undivided.

The runtime asks when it creates or updates a container; in both requests the quota is kubelet's own. It is
divided once, here, and never what the runtime has set before. The ratio is that of the pod's workload or the
node's, by the labels that the API shows. A request without a quota gets no answer: its quota is not to be
changed. In a pod that owns CPUs, once its own quota is lifted, containers get none from the start, and keep
none when kubelet updates them.

The ratio, or the pod's right to other CPUs, may be gone before the API shows the container. So the reconciler
is told which containers were answered another quota than kubelet's, and sees to them once they are shown.

The quota of a pod's own cgroup is left to the reconciler, which is woken. No container meets a parent
smaller than itself: kubelet makes the pod's cgroup undivided, and the reconciler narrows it, on v1 never
below a container's undivided quota (:mod:`corewise.agent.quota_targets`). Its CPUs are set at once, before
any container is made in it: so no container runs a moment on CPUs that others own, and none is given CPUs of
its own by the runtime, which would remember them when they have changed.

At each new connection the runtime lists what runs already. The reconciler has divided those; the answer
carries their quotas too, so that the runtime writes back the divided one when it updates another resource.

The plugin and protobuf are imported only where the agent connects to a runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Never

import msgspec

from corewise.agent.local_node import LocalNode
from corewise.agent.objects import PodMeta, QuotaPod
from corewise.normalization.quota import divided_quota
from corewise.nri.messages import (
    ContainerAdjustment,
    ContainerUpdate,
    CPUResources,
    LifecycleEvent,
    NRIContainer,
    PodSandbox,
    RequestOutcome,
)
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Microseconds
from corewise.vocabulary.metrics import NRI_CONNECTED, NRI_DIVIDED, NRI_REQUESTS

_UNLIMITED = Microseconds(-1)
_WAKING = frozenset(
    {
        LifecycleEvent.POST_CREATE_CONTAINER,
        LifecycleEvent.POST_START_CONTAINER,
        LifecycleEvent.POST_UPDATE_CONTAINER,
    }
)


class RuntimeHook:
    """The agent's handler of NRI requests, and their observer. ``wake`` has the reconciler run."""

    def __init__(
        self,
        local: LocalNode,
        pods: Callable[[], Collection[QuotaPod]],
        metrics: Exposition,
        wake: Callable[[], None],
    ) -> None:
        self._local = local
        self._pods = pods
        self._metrics = metrics
        self._wake = wake

    async def on_synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[NRIContainer]
    ) -> Sequence[ContainerUpdate]:
        """Return the divided quotas of those containers whose runtime knows another."""
        self._local.answered.intersection_update(container.id for container in containers)
        self._wake()
        bounds = {
            container_id.partition("://")[2]: bound
            for container_id, bound in self._local.bounds(self._pods()).items()
        }
        return [
            ContainerUpdate(container.id, bound.quota)
            for container in containers
            if (bound := bounds.get(container.id)) is not None
            and bound.quota is not None
            and container.cpu.quota != bound.quota
        ]

    async def on_run_pod_sandbox(self, pod: PodSandbox) -> None:
        """Bring the pod to the CPUs that it owns or shares, and have the reconciler look at its cgroup."""
        self._local.receive(_as_reported(pod), self._pods())
        self._wake()

    async def on_create(self, pod: PodSandbox, container: NRIContainer) -> ContainerAdjustment | None:
        return self._answer(LifecycleEvent.CREATE_CONTAINER, pod, container, container.cpu)

    async def on_update(
        self, pod: PodSandbox, container: NRIContainer, requested: CPUResources
    ) -> ContainerAdjustment | None:
        return self._answer(LifecycleEvent.UPDATE_CONTAINER, pod, container, requested)

    async def on_event(self, event: LifecycleEvent, pod: PodSandbox, container: NRIContainer | None) -> None:
        """Have the reconciler look at what has just been created, started or updated."""
        if event in _WAKING:
            self._wake()
        elif event is LifecycleEvent.REMOVE_CONTAINER and container is not None:
            self._local.answered.discard(container.id)

    def _answer(
        self, event: LifecycleEvent, pod: PodSandbox, container: NRIContainer, requested: CPUResources
    ) -> ContainerAdjustment | None:
        base, reported = requested.quota, _as_reported(pod)
        if base is None or base <= 0:
            return None
        quota = _UNLIMITED if self._local.lifts(reported) else self._divided(reported, base)
        if quota == base:
            self._local.answered.discard(container.id)
            return None
        self._local.answered.add(container.id)
        if quota != _UNLIMITED:
            self._metrics.count(NRI_DIVIDED, event.name)
        return ContainerAdjustment(quota)

    def _divided(self, reported: QuotaPod, base: Microseconds) -> Microseconds:
        known = self._known(reported)
        return divided_quota(base, self._local.ratio_of(known)) if self._local.divides(known) else base

    def _known(self, reported: QuotaPod) -> QuotaPod:
        """Return a pod with the labels and claims that the API shows: the runtime has those of the start."""
        certain = self._local.certain_pods(self._pods()).pods
        shown = next((each for each in certain if each.uid == reported.uid), None)
        if shown is None:
            return reported
        metadata = msgspec.structs.replace(reported.metadata, labels=shown.metadata.labels)
        claims = shown.status.node_allocatable_resource_claim_statuses
        status = msgspec.structs.replace(reported.status, node_allocatable_resource_claim_statuses=claims)
        return msgspec.structs.replace(reported, metadata=metadata, status=status)

    def request(self, method: str, outcome: RequestOutcome) -> None:
        self._metrics.count(NRI_REQUESTS, method, outcome)

    def synchronized(self, *, now: bool) -> None:
        self._metrics.set(NRI_CONNECTED, int(now))


def _as_reported(pod: PodSandbox) -> QuotaPod:
    """Return a pod with the fields that the runtime knows."""
    return QuotaPod(
        PodMeta(
            name=pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            labels=pod.labels,
            annotations=pod.annotations,
        )
    )


async def serve_runtime(socket: Path, hook: RuntimeHook) -> Never:
    """Serve as the plugin of the runtime that listens on a socket, until canceled."""
    from corewise.nri.plugin import NRIPlugin, PluginOptions  # noqa: PLC0415 - protobuf only where it is needed

    plugin = NRIPlugin(hook, PluginOptions(socket=str(socket)), observer=hook)
    await plugin.run()

"""kubelet's quotas of a pod whose spec does not give them: a resize waits, and no spec was seen before it.

Each source may be wrong:

=================  ==============================================================================
the journal        has the base of a held cgroup, as it was when the last agent ended
the cgroup         may have been divided by an agent whose journal is lost
the pod's status   has what the runtime recorded: kubelet's quota, or the divided one (NRI);
                   while another resize is in progress, it may have the previous limit
=================  ==============================================================================

Division only makes a quota smaller. So kubelet's is the larger of the status' and the journal's, or the
cgroup's where none is held. A cgroup that is not held is left alone if the status is not valid.

If a resize was carried out while no agent ran, the journal does not count: kubelet alone writes the pod's own
cgroup, so what has changed there and in its containers since the last agent's write is kubelet's. What
kubelet asked the runtime for (NRI) counts before all of these.

Source: kubelet's pkg/kubelet/kubelet_pods.go (convertToAPIContainerStatuses), and containerd's
internal/cri/server/container_create.go (copyResourcesToStatus, after the adjustment by NRI plugins).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from corewise.agent.cgroups import CgroupSetup
from corewise.agent.objects import ContainerStatus, QuotaPod, QuotaPodSpec
from corewise.agent.quota_targets import Target, targets_of
from corewise.amplification.amounts import CPU
from corewise.kernel.cgroups.resources import Bandwidth, read_bandwidth
from corewise.kernel.errors import KernelError
from corewise.quantities import ONE, Microseconds
from corewise.workload.pods import Container


@dataclass(frozen=True, slots=True)
class QuotaBases:
    """The sources on one node. ``answered`` is as in :class:`corewise.agent.quotas.QuotaReconciler`."""

    found: CgroupSetup
    answered: Mapping[str, Microseconds]

    def targets(self, pod: QuotaPod, *, is_new: bool) -> Iterator[tuple[Target, bool]]:
        """Yield a pod's cgroups with kubelet's quotas, and whether these are certain.

        ``is_new``: the last writes to its cgroups were another agent's.

        Raises:
            UnsafeName, ValueError: as :func:`targets_of`.
        """
        spec = _spec_of_status(pod)
        targets = tuple(targets_of(pod, spec or pod.spec, self.found.names))
        is_resized = is_new and self._is_rewritten(targets[0])
        for target in targets:
            base = self._base(target, has_status=spec is not None, is_resized=is_resized)
            if base is None:
                yield target, False
            elif spec is not None and target.quota(base.period, ONE) == base.quota:
                yield target, True
            else:
                yield replace(target, base=base), True

    def _base(self, target: Target, *, has_status: bool, is_resized: bool) -> Bandwidth | None:
        claim = self.found.writer.held.get(target.cgroup)
        try:
            present = read_bandwidth(self.found.files, target.cgroup)
        except KernelError:
            return None
        if target.container_id in self.answered:
            return Bandwidth(self.answered[target.container_id], present.period)
        if claim is None and not has_status:
            return None
        own = present if claim is None or (is_resized and self._is_rewritten(target)) else claim.base
        stated = target.quota(present.period, ONE) if has_status else None
        quota = max(filter(None, (own.quota_over(present.period), stated)), default=None)
        return None if quota is None else Bandwidth(quota, present.period)

    def _is_rewritten(self, target: Target) -> bool:
        """Whether a held cgroup has another quota than an agent gave it last."""
        held = self.found.held(target.cgroup)
        try:
            present = read_bandwidth(self.found.files, target.cgroup)
        except KernelError:
            return False
        applied = self.found.writer.applied(target.cgroup, present)
        is_comparable = held is not None and held.period == present.period
        return is_comparable and None not in {applied, present.quota} and applied != present.quota


def _spec_of_status(pod: QuotaPod) -> QuotaPodSpec | None:
    """Return the spec with the limits that its containers' status states; None if that is not valid."""
    spec, status = pod.spec, pod.status
    stated = {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}
    names = {each.name for each in (*spec.containers, *spec.init_containers)}
    is_whole = all(name in stated and stated[name].resources is not None for name in names)
    if pod.is_being_resized or not is_whole or CPU in spec.resources.limits:
        return None
    return msgspec.structs.replace(
        spec,
        containers=tuple(_with_limits(each, stated[each.name]) for each in spec.containers),
        init_containers=tuple(_with_limits(each, stated[each.name]) for each in spec.init_containers),
    )


def _with_limits(container: Container, status: ContainerStatus) -> Container:
    limits = status.resources.limits if status.resources else {}
    resources = msgspec.structs.replace(container.resources, limits=limits)
    return msgspec.structs.replace(container, resources=resources)

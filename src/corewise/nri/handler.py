"""Who decides what the plugin answers: the seam between this protocol adapter and the program.

The runtime waits for each answer, and a pod's start with it. A handler that is late or raises is not waited
for: the plugin answers "as you were" in its place, counts it, and the reconciler does the work later.

A handler runs in the plugin's event loop and must not block it. It must not call
``Plugin.update_containers`` and wait for that, since the runtime serves no plugin while it waits for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from corewise.nri.messages import Adjustment, Container, ContainerUpdate, CPUResources, Event, PodSandbox


class Handler(Protocol):
    """Calls come one after the other for one connection, in the order in which the runtime made them."""

    async def on_synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[Container]
    ) -> Sequence[ContainerUpdate]:
        """Take note of what runs already, at every new connection; return what must change."""
        ...

    async def on_run_pod_sandbox(self, pod: PodSandbox) -> None:
        """Prepare for the pod's containers: its cgroup exists, they do not yet."""
        ...

    async def on_create(self, pod: PodSandbox, container: Container) -> Adjustment | None:
        """Return the quota to create the container with; None leaves kubelet's."""
        ...

    async def on_update(
        self, pod: PodSandbox, container: Container, requested: CPUResources
    ) -> Adjustment | None:
        """Return the quota to update the container to; None leaves what kubelet requested.

        ``requested`` is kubelet's, undivided; a quota of None in it is not to be changed.
        """
        ...

    async def on_event(self, event: Event, pod: PodSandbox, container: Container | None) -> None:
        """Take note of any other event; ``container`` is None for those of pods."""
        ...

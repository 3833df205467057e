"""What a container runtime tells its NRI plugins, and what corewise answers: values, no protobuf.

Only the fields that are used. A number that the runtime did not state is None, never 0, since NRI tells the
two apart: a quota of None means "as it is", and of -1 "unlimited".

Source: github.com/containerd/nri, pkg/api/api.proto (package nri.pkg.api.v1alpha1).

Who decides what the plugin answers: the seam between this protocol adapter and the program.

The runtime waits for each answer, and a pod's start with it. A handler that is late or raises is not waited
for: the plugin answers "as you were" in its place, counts it, and the reconciler does the work later.

A handler runs in the plugin's event loop and must not block it. It must not call
``Plugin.update_containers`` and wait for that, since the runtime serves no plugin while it waits for one.

What the plugin tells about itself while it runs: the seam to a program's metrics and health.
"""

from __future__ import annotations

from collections.abc import (Mapping)
from dataclasses import (dataclass, field)
from enum import (IntEnum)
from types import (MappingProxyType)
from corewise.quantities import (Microseconds)
from collections.abc import (Sequence)
from typing import (Protocol)
from enum import (StrEnum)


_NONE: Mapping[str, str] = MappingProxyType({})


class Event(IntEnum):
    """What happens to pods and containers. ``1 << (event - 1)`` is its bit in a subscription."""

    UNKNOWN = 0
    RUN_POD_SANDBOX = 1
    STOP_POD_SANDBOX = 2
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    POST_CREATE_CONTAINER = 5
    START_CONTAINER = 6
    POST_START_CONTAINER = 7
    UPDATE_CONTAINER = 8
    POST_UPDATE_CONTAINER = 9
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11


class ContainerState(IntEnum):
    """Where in its life a container is."""

    UNKNOWN = 0
    CREATED = 1
    PAUSED = 2
    RUNNING = 3
    STOPPED = 4


@dataclass(frozen=True, slots=True)
class CPUResources:
    """CPU resources of a container, as kubelet asked for them or as the runtime has set them."""

    quota: Microseconds | None = None
    period: Microseconds | None = None
    shares: int | None = None
    cpus: str = ""


NO_CPU = CPUResources()


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """A pod. ``id`` is the runtime's, ``uid`` the API's; ``cgroup_parent`` is the pod's own cgroup."""

    id: str
    name: str = ""
    uid: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _NONE)
    annotations: Mapping[str, str] = field(default_factory=lambda: _NONE)
    cgroup_parent: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the pod ``pod_sandbox_id``.

    ``cpu`` is what kubelet asks for while the container is being created, and what the runtime has last set,
    so possibly divided already, at any later time.
    """

    id: str
    pod_sandbox_id: str = ""
    name: str = ""
    state: ContainerState = ContainerState.UNKNOWN
    labels: Mapping[str, str] = field(default_factory=lambda: _NONE)
    annotations: Mapping[str, str] = field(default_factory=lambda: _NONE)
    cpu: CPUResources = NO_CPU
    cgroups_path: str = ""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The quota that a container being created or updated shall have; -1 is unlimited.

    Without a ``period`` the container keeps the one that kubelet asks for.
    """

    quota: Microseconds
    period: Microseconds | None = None


@dataclass(frozen=True, slots=True)
class ContainerUpdate:
    """The quota that an existing container shall have.

    The runtime goes on with the other updates if this one fails, unless told not to ignore that.
    """

    container_id: str
    quota: Microseconds
    period: Microseconds | None = None
    ignore_failure: bool = True


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


class Outcome(StrEnum):
    """What became of one request of the runtime."""

    ANSWERED = "answered"
    LATE = "late"
    """The handler took too long; nothing was changed."""
    FAILED = "failed"
    """The handler raised; nothing was changed."""
    UNKNOWN = "unknown"
    """A method of later releases; the runtime was told so."""


class Observer(Protocol):
    """Is told at once, in the event loop; must not block or raise."""

    def request(self, method: str, outcome: Outcome) -> None:
        """Note a request that was answered, one way or another."""
        ...

    def synchronized(self, *, now: bool) -> None:
        """Note that the runtime asks us from now on, or that it no longer does."""
        ...


class Unobserved:
    """Nobody wants to know."""

    def request(self, method: str, outcome: Outcome) -> None:
        """Do nothing."""

    def synchronized(self, *, now: bool) -> None:
        """Do nothing."""

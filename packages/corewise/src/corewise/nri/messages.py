"""The requests of container runtimes to NRI plugins, corewise's answers, and the handler: no protobuf.

Messages have only the fields that are used. A number that the runtime did not state is None, never 0, since
NRI distinguishes the two: a quota of None means "as it is", and of -1 "unlimited".

A program decides by a :class:`NRIHandler`, and gets metrics and health by a :class:`PluginObserver`. The
runtime waits for each answer, and a pod's start with it. The plugin does not wait for a handler that is late
or raises: it answers "no change" in its place, counts it, and the reconciler does the work later. A handler
runs in the plugin's event loop and must not block it.

Source: github.com/containerd/nri, pkg/api/api.proto (package nri.pkg.api.v1alpha1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Protocol, Self

from corewise.quantities import Microseconds

_NONE: Mapping[str, str] = MappingProxyType({})


class LifecycleEvent(IntEnum):
    """The lifecycle events of pods and containers. ``1 << (event - 1)`` is an event's bit in a subscription.

    One that a later release has added is unknown.
    """

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

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class CPUResources:
    """CPU resources of a container, as kubelet asked for them or as the runtime has set them."""

    quota: Microseconds | None = None
    period: Microseconds | None = None
    shares: int | None = None


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
class NRIContainer:
    """A container of the pod ``pod_sandbox_id``.

    ``cpu`` is what kubelet asks for while the container is being created, and what the runtime has last set,
    so possibly divided already, at any later time.
    """

    id: str
    pod_sandbox_id: str = ""
    name: str = ""
    annotations: Mapping[str, str] = field(default_factory=lambda: _NONE)
    cpu: CPUResources = CPUResources()


@dataclass(frozen=True, slots=True)
class ContainerAdjustment:
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


class NRIHandler(Protocol):
    """Calls come one after the other for one connection, in the order in which the runtime made them."""

    async def on_synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[NRIContainer]
    ) -> Sequence[ContainerUpdate]:
        """Take note of what runs already, at every new connection; return what must change."""

    async def on_run_pod_sandbox(self, pod: PodSandbox) -> None:
        """Prepare for the pod's containers: its cgroup exists, they do not yet."""

    async def on_create(self, pod: PodSandbox, container: NRIContainer) -> ContainerAdjustment | None:
        """Return the quota to create the container with; None leaves kubelet's."""

    async def on_update(
        self, pod: PodSandbox, container: NRIContainer, requested: CPUResources
    ) -> ContainerAdjustment | None:
        """Return the quota to update the container to; None leaves what kubelet requested.

        ``requested`` is kubelet's, undivided; a quota of None in it is not to be changed.
        """

    async def on_event(self, event: LifecycleEvent, pod: PodSandbox, container: NRIContainer | None) -> None:
        """Take note of any other event; ``container`` is None for those of pods."""


class RequestOutcome(StrEnum):
    """The outcome of a request of the runtime."""

    ANSWERED = "answered"
    LATE = "late"
    """The handler took too long; nothing was changed."""
    FAILED = "failed"
    """The handler raised; nothing was changed."""
    UNKNOWN = "unknown"
    """A method of later releases, answered with an error."""


class PluginObserver(Protocol):
    """Called at once, in the event loop; must not block or raise."""

    def request(self, method: str, outcome: RequestOutcome) -> None:
        """Note a request that was answered, one way or another."""

    def synchronized(self, *, now: bool) -> None:
        """Note that the runtime asks us from now on, or that it no longer does."""

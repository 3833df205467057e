"""What a container runtime tells its NRI plugins, and what corewise answers: values, no protobuf.

Only the fields that are used. A number that the runtime did not state is None, never 0, since NRI tells the
two apart: a quota of None means "as it is", and of -1 "unlimited".

Source: github.com/containerd/nri, pkg/api/api.proto (package nri.pkg.api.v1alpha1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

from corewise.quantities import Microseconds

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

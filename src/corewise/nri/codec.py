"""Between protobuf messages and the values of :mod:`corewise.nri.messages`.

Whatever comes decodes: what is missing is empty, and a number or state that has no meaning is unknown. The
runtime passes kubelet's zeros on as values; in the CRI a CPU quota, period or share of 0 means "not stated".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError

from corewise.nri.errors import ProtocolViolation
from corewise.nri.messages import (
    Adjustment,
    Container,
    ContainerState,
    ContainerUpdate,
    CPUResources,
    Event,
    PodSandbox,
)
from corewise.nri.schema import MESSAGES
from corewise.quantities import Microseconds


def decode(name: str, payload: bytes) -> Any:
    """Return the protobuf message ``name``.

    Raises:
        ProtocolViolation: if the payload is not one.
    """
    try:
        return MESSAGES[name].FromString(payload)
    except DecodeError as error:
        raise ProtocolViolation(f"a {name} that cannot be decoded, {len(payload)} bytes: {error}") from error


def encode(name: str, **fields: Any) -> bytes:
    """Return the protobuf message ``name`` with these fields, encoded."""
    payload: bytes = MESSAGES[name](**fields).SerializeToString()
    return payload


def pod(message: Any) -> PodSandbox:
    """Return the pod that a ``PodSandbox`` message states."""
    return PodSandbox(
        id=message.id,
        name=message.name,
        uid=message.uid,
        namespace=message.namespace,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        cgroup_parent=message.linux.cgroup_parent,
    )


def container(message: Any) -> Container:
    """Return the container that a ``Container`` message states."""
    return Container(
        id=message.id,
        pod_sandbox_id=message.pod_sandbox_id,
        name=message.name,
        state=_state(message.state),
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        cpu=cpu(message.linux.resources),
        cgroups_path=message.linux.cgroups_path,
    )


def cpu(resources: Any) -> CPUResources:
    """Return the CPU part of a ``LinuxResources`` message."""
    stated = resources.cpu
    return CPUResources(
        quota=Microseconds(stated.quota.value) or None,
        period=Microseconds(stated.period.value) or None,
        shares=stated.shares.value or None,
        cpus=stated.cpus,
    )


def event(number: int) -> Event:
    """Return the event of that number; ``UNKNOWN`` for one of later releases."""
    try:
        return Event(number)
    except ValueError:
        return Event.UNKNOWN


def adjustment(wanted: Adjustment | None) -> Any:
    """Return a ``ContainerAdjustment`` message, or None for no change."""
    if wanted is None:
        return None
    linux = MESSAGES["LinuxContainerAdjustment"](resources=_resources(wanted.quota, wanted.period))
    return MESSAGES["ContainerAdjustment"](linux=linux)


def updates(wanted: Iterable[ContainerUpdate]) -> list[Any]:
    """Return ``ContainerUpdate`` messages."""
    return [
        MESSAGES["ContainerUpdate"](
            container_id=update.container_id,
            linux=MESSAGES["LinuxContainerUpdate"](resources=_resources(update.quota, update.period)),
            ignore_failure=update.ignore_failure,
        )
        for update in wanted
    ]


def _resources(quota: Microseconds, period: Microseconds | None) -> Any:
    stated: dict[str, Any] = {"quota": MESSAGES["OptionalInt64"](value=quota)}
    if period is not None:
        stated["period"] = MESSAGES["OptionalUInt64"](value=period)
    return MESSAGES["LinuxResources"](cpu=MESSAGES["LinuxCPU"](**stated))


def _state(number: int) -> ContainerState:
    try:
        return ContainerState(number)
    except ValueError:
        return ContainerState.UNKNOWN

"""The protobuf messages of ttrpc and NRI, and between them and the values of :mod:`corewise.nri.messages`.

The message classes are built when this module is imported; no compiler step.
``_SCHEMA`` is proto3 in its own notation, reduced to the fields that are read or written here. A field that
is left out stays in a received message as an unknown field and is ignored. Field numbers and types are those
of every NRI release from 0.6 on: fields are only ever added to this API.

Whatever comes decodes: what is missing is empty, and a number or state that has no meaning is unknown. The
runtime passes kubelet's zeros on as values; in the CRI a CPU quota, period or share of 0 means "not stated".

Sources: github.com/containerd/nri pkg/api/api.proto; github.com/containerd/ttrpc request.proto, with
google.rpc.Status in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from corewise.nri.errors import ProtocolViolation
from corewise.nri.messages import (
    ContainerAdjustment,
    ContainerUpdate,
    CPUResources,
    NRIContainer,
    PodSandbox,
)
from corewise.quantities import Microseconds

_SCHEMA = """
message Request {
  string service = 1; string method = 2; bytes payload = 3; int64 timeout_nano = 4;
}
message Response { Status status = 1; bytes payload = 2; }
message Status { int32 code = 1; string message = 2; }

message Empty {}
message RegisterPluginRequest { string plugin_name = 1; string plugin_idx = 2; }

message ConfigureRequest { string runtime_name = 2; string runtime_version = 3; }
message ConfigureResponse { int32 events = 2; }
message SynchronizeRequest {
  repeated PodSandbox pods = 1; repeated Container containers = 2; bool more = 3;
}
message SynchronizeResponse { repeated ContainerUpdate update = 1; bool more = 2; }
message CreateContainerResponse { ContainerAdjustment adjust = 1; }
message UpdateContainerRequest {
  PodSandbox pod = 1; Container container = 2; LinuxResources linux_resources = 3;
}
message UpdateContainerResponse { repeated ContainerUpdate update = 1; }
message EventRequest { PodSandbox pod = 1; Container container = 2; }
message StateChangeEvent { int32 event = 1; PodSandbox pod = 2; Container container = 3; }

message PodSandbox {
  string id = 1; string name = 2; string uid = 3; string namespace = 4;
  map<string, string> labels = 5; map<string, string> annotations = 6; LinuxPodSandbox linux = 8;
}
message LinuxPodSandbox { string cgroup_parent = 3; }
message Container {
  string id = 1; string pod_sandbox_id = 2; string name = 3;
  map<string, string> annotations = 6; LinuxContainer linux = 11;
}
message LinuxContainer { LinuxResources resources = 3; }
message LinuxResources { LinuxCPU cpu = 2; }
message LinuxCPU {
  OptionalUInt64 shares = 1; OptionalInt64 quota = 2; OptionalUInt64 period = 3;
}
message ContainerAdjustment { LinuxContainerAdjustment linux = 6; }
message LinuxContainerAdjustment { LinuxResources resources = 2; }
message ContainerUpdate {
  string container_id = 1; LinuxContainerUpdate linux = 2; bool ignore_failure = 3;
}
message LinuxContainerUpdate { LinuxResources resources = 1; }
message OptionalInt64 { int64 value = 1; }
message OptionalUInt64 { uint64 value = 1; }
"""

_MESSAGE = re.compile(r"message (\w+) \{([^}]*)\}")
_FIELD = re.compile(r"(repeated )?(\w+|map<string, string>) (\w+) = (\d+);")
_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}


def message_classes(package: str, schema: str) -> dict[str, Any]:
    """Return the classes of a schema's messages, by name."""
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, body in _MESSAGE.findall(schema):
        message = file.message_type.add(name=name)
        for repeated, type_name, field_name, number in _FIELD.findall(body):
            many = bool(repeated) or type_name.startswith("map")
            field = message.field.add(
                name=field_name,
                number=int(number),
                label=FieldDescriptorProto.LABEL_REPEATED if many else FieldDescriptorProto.LABEL_OPTIONAL,
            )
            _set_type(field, type_name, message, package)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message.name}"))
        for message in file.message_type
    }


def _set_type(field: FieldDescriptorProto, type_name: str, message: DescriptorProto, package: str) -> None:
    if type_name in _SCALARS:
        field.type = _SCALARS[type_name]
        return
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    if type_name.startswith("map"):
        # A map is, on the wire, a list of messages of key and value; this is their type.
        entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), start=1):
            entry.field.add(
                name=name,
                number=number,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
                type=FieldDescriptorProto.TYPE_STRING,
            )
        type_name = f"{message.name}.{entry.name}"
    field.type_name = f".{package}.{type_name}"


MESSAGES = message_classes("corewise.nri", _SCHEMA)
"""The classes by name. They are made at run time, so that a type checker cannot know their fields."""


def decode(name: str, payload: bytes) -> Any:
    """Return the protobuf message ``name``.

    Raises:
        ProtocolViolation: if the payload is not one.
    """
    try:
        return MESSAGES[name].FromString(payload)
    except DecodeError as error:
        raise ProtocolViolation(f"cannot decode a {name} of {len(payload)} bytes: {error}") from error


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


def container(message: Any) -> NRIContainer:
    """Return the container that a ``NRIContainer`` message states."""
    return NRIContainer(
        id=message.id,
        pod_sandbox_id=message.pod_sandbox_id,
        name=message.name,
        annotations=dict(message.annotations),
        cpu=cpu(message.linux.resources),
    )


def cpu(resources: Any) -> CPUResources:
    """Return the CPU part of a ``LinuxResources`` message."""
    stated = resources.cpu
    return CPUResources(
        quota=Microseconds(stated.quota.value) or None,
        period=Microseconds(stated.period.value) or None,
        shares=stated.shares.value or None,
    )


def adjustment(wanted: ContainerAdjustment | None) -> Any:
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

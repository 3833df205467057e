"""A small kubelet's side of the CRI (runtime.v1): pods on the host's network, and their containers.

The messages have only the fields that are used.
Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from corewise.nri.codec import message_classes
from node.image import IMAGE

_MESSAGES = message_classes(
    "runtime.v1",
    """
message PodSandboxMetadata { string name = 1; string uid = 2; string namespace = 3; }
message PodSandboxConfig {
  PodSandboxMetadata metadata = 1; string log_directory = 3; map<string, string> labels = 6;
  LinuxPodSandboxConfig linux = 8;
}
message LinuxPodSandboxConfig { string cgroup_parent = 1; SecurityContext security_context = 2; }
message SecurityContext { NamespaceOption namespace_options = 1; }
message ContainerSecurityContext {
  Capability capabilities = 1; bool privileged = 2; NamespaceOption namespace_options = 3;
  Int64Value run_as_user = 5; bool readonly_rootfs = 7; bool no_new_privs = 11; Int64Value run_as_group = 12;
  SecurityProfile seccomp = 15;
}
message Capability { repeated string add_capabilities = 1; repeated string drop_capabilities = 2; }
message Int64Value { int64 value = 1; }
message SecurityProfile { int32 profile_type = 1; }
message NamespaceOption { int32 network = 1; }
message RunPodSandboxRequest { PodSandboxConfig config = 1; }
message RunPodSandboxResponse { string pod_sandbox_id = 1; }
message PodSandboxRequest { string pod_sandbox_id = 1; }
message ContainerMetadata { string name = 1; }
message ImageSpec { string image = 1; }
message Mount { string container_path = 1; string host_path = 2; bool readonly = 3; }
message KeyValue { string key = 1; string value = 2; }
message LinuxContainerResources {
  int64 cpu_period = 1; int64 cpu_quota = 2; int64 cpu_shares = 3; int64 memory_limit_in_bytes = 4;
}
message LinuxContainerConfig {
  LinuxContainerResources resources = 1; ContainerSecurityContext security_context = 2;
}
message ContainerConfig {
  ContainerMetadata metadata = 1; ImageSpec image = 2; repeated string command = 3; repeated string args = 4;
  repeated KeyValue envs = 6; repeated Mount mounts = 7; map<string, string> labels = 9;
  map<string, string> annotations = 10; string log_path = 11; LinuxContainerConfig linux = 15;
}
message CreateContainerRequest {
  string pod_sandbox_id = 1; ContainerConfig config = 2; PodSandboxConfig sandbox_config = 3;
}
message CreateContainerResponse { string container_id = 1; }
message ContainerRequest { string container_id = 1; }
message UpdateContainerResourcesRequest { string container_id = 1; LinuxContainerResources linux = 2; }
message ImageStatusRequest { ImageSpec image = 1; }
message ImageStatusResponse { ImageSpec image = 1; }
message ContainerStatusResponse { ContainerStatus status = 1; }
message ContainerStatus { int32 state = 3; int32 exit_code = 7; }
message Empty {}
""",
)
HOST_NETWORK = {"namespace_options": {"network": 2}}
PERIOD = 100_000
_EXITED = 2


class CRI:
    """Calls a runtime at its socket."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}")

    def close(self) -> None:
        self._channel.close()

    def has_image(self) -> bool:
        """Whether the runtime serves and knows the image."""
        try:
            answer = self._call(
                "ImageService/ImageStatus",
                "ImageStatusRequest",
                "ImageStatusResponse",
                image={"image": IMAGE},
            )
        except grpc.RpcError:
            return False
        return bool(answer.HasField("image"))

    def run_pod(self, uid: str, cgroup: str, logs: Path | None = None) -> Pod:
        """Start a pod in this cgroup; ``logs`` is where its containers' logs are to be."""
        config = _MESSAGES["PodSandboxConfig"](
            metadata={"name": uid, "uid": uid, "namespace": "test"},
            log_directory=str(logs or ""),
            labels={"app": uid},
            linux={"cgroup_parent": cgroup, "security_context": HOST_NETWORK},
        )
        method = "RunPodSandbox"
        answer = self._runtime(method, f"{method}Request", f"{method}Response", config=config)
        return Pod(answer.pod_sandbox_id, uid, cgroup, config)

    def create(self, pod: Pod, name: str, *, quota: int, command: list[str], seen: Path) -> str:
        """Create a container, with ``seen`` mounted at /seen, and return its ID."""
        return self.create_as(
            pod,
            metadata={"name": name},
            image={"image": IMAGE},
            command=command,
            mounts=[{"container_path": "/seen", "host_path": str(seen)}],
            annotations={"test/quota": str(quota)},
            linux={
                "resources": {"cpu_quota": quota, "cpu_period": PERIOD, "cpu_shares": 1024},
                "security_context": HOST_NETWORK,
            },
        )

    def create_as(self, pod: Pod, **fields: Any) -> str:
        """Create a container from the fields of a ContainerConfig, and return its ID."""
        config = _MESSAGES["ContainerConfig"](**fields)
        request = {"pod_sandbox_id": pod.id, "config": config, "sandbox_config": pod.config}
        answer = self._runtime(
            "CreateContainer", "CreateContainerRequest", "CreateContainerResponse", **request
        )
        return str(answer.container_id)

    def start(self, container_id: str) -> None:
        self._runtime("StartContainer", "ContainerRequest", "Empty", container_id=container_id)

    def exit_code(self, container_id: str) -> int | None:
        """Return the exit code of a container, None as long as it runs."""
        method = "ContainerStatus"
        answer = self._runtime(method, "ContainerRequest", f"{method}Response", container_id=container_id)
        return int(answer.status.exit_code) if answer.status.state == _EXITED else None

    def update(self, container_id: str, **resources: int) -> None:
        """Set resources of a container, as kubelet does: what is 0 stays as it is."""
        linux = _MESSAGES["LinuxContainerResources"](**resources)
        self._runtime(
            "UpdateContainerResources",
            "UpdateContainerResourcesRequest",
            "Empty",
            container_id=container_id,
            linux=linux,
        )

    def remove_pod(self, pod: Pod) -> None:
        """Stop and remove a pod with its containers."""
        for method in ("StopPodSandbox", "RemovePodSandbox"):
            self._runtime(method, "PodSandboxRequest", "Empty", pod_sandbox_id=pod.id)

    def _runtime(self, method: str, request: str, response: str, **fields: Any) -> Any:
        return self._call(f"RuntimeService/{method}", request, response, **fields)

    def _call(self, method: str, request: str, response: str, **fields: Any) -> Any:
        call = self._channel.unary_unary(
            f"/runtime.v1.{method}",
            request_serializer=_MESSAGES[request].SerializeToString,
            response_deserializer=_MESSAGES[response].FromString,
        )
        return call(_MESSAGES[request](**fields), timeout=180)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that runs; ``id`` is the runtime's."""

    id: str
    uid: str
    cgroup: str
    config: Any

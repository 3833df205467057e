"""Kubelet's files on the node's disk: the CPUs it reserves, and the pods its CPU manager has pinned.

``/var/lib/kubelet/config.yaml`` has ``reservedSystemCPUs``; kubeadm and most distributions keep kubelet's
configuration there. From it follows what kubelet leaves as allocatable: capacity less kubeReserved,
systemReserved, the threshold of hard eviction and, of memory, hugepages. What kubelet gets by its command
line or another file is not known here, nor is a threshold in percent.

``/var/lib/kubelet/cpu_manager_state``: kubelet enters a container's exclusive CPUs there before the container
is created, and replaces the whole file. A pod counts as pinned if any of its containers is: the file names
containers by the pod's UID. With pod-level resources (KEP-5526) it names the CPUs of whole pods, too. Without
the file the policy is ``none``. If it could never be read, pods that might be pinned (Guaranteed ones) are
left as they are.

A file is read again only when it has been replaced; if it cannot be read, its last good content counts.

Sources: KubeletConfiguration, kubelet.config.k8s.io/v1beta1; kubelet's
pkg/kubelet/cm/node_container_manager_linux.go (GetNodeAllocatableReservation),
pkg/kubelet/nodestatus/setters.go (MachineInfo), pkg/kubelet/cm/cpumanager/state/checkpoint.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from corewise.config.yaml_text import NotYAMLError, load_document
from corewise.kernel.errors import KernelError, Malformed, Missing, reading_error
from corewise.quantities import Quantity, QuantityError
from corewise.quantities.quantity import NANO, Format
from corewise.topology import CPUSet, CPUSetError, Host
from corewise.vocabulary.errors import UNREADABLE

T = TypeVar("T")

CONFIG_FILE = "var/lib/kubelet/config.yaml"
STATE_FILE = "var/lib/kubelet/cpu_manager_state"
STATIC = "static"
NONE = "none"


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The resources that kubelet reserves: CPUs by number, and amounts; None is unknown."""

    reserved_cpus: CPUSet = field(default_factory=CPUSet)
    cpu: Quantity | None = None
    memory: Quantity | None = None

    def allocatable(self, host: Host) -> dict[str, str]:
        """Return kubelet's allocatable for a machine, in kubelet's format; unknown amounts are left out."""
        amounts: dict[str, str] = {}
        if self.cpu is not None:
            amounts["cpu"] = str(Quantity(max(0, len(host.topology.cpus) * NANO - self.cpu.nano)))
        if self.memory is not None and host.memory_total is not None:
            hugepages = sum(node.hugepages for node in host.memory.values())
            left = (host.memory_total - hugepages) * NANO - self.memory.nano
            amounts["memory"] = str(Quantity(max(0, left), Format.BINARY_SI))
        return amounts


def parse_config(text: bytes) -> KubeletConfig:
    """Read the content of the file.

    Raises:
        ValueError: if it is not a configuration.
    """
    try:
        config: Any = load_document(text)
    except NotYAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error
    if not isinstance(config, dict):
        raise ValueError("the file must be a mapping")  # noqa: TRY004
    reserved = config.get("reservedSystemCPUs")
    cpus = CPUSet() if reserved is None else CPUSet.parse(str(reserved))
    kube, system = _amounts(config, "kubeReserved"), _amounts(config, "systemReserved")
    eviction = (
        {"memory.available": _EVICTION} if config.get("evictionHard") is None else config["evictionHard"]
    )
    if not isinstance(eviction, dict):
        raise ValueError("evictionHard must be a mapping")  # noqa: TRY004
    # CPUs that are reserved by number stand for what both reserve of cpu.
    cpu = Quantity(len(cpus) * NANO) if cpus else _sum(kube.get("cpu"), system.get("cpu"))
    memory = _sum(kube.get("memory"), system.get("memory"), eviction.get("memory.available"))
    return KubeletConfig(cpus, cpu, memory)


_EVICTION: Final = "100Mi"
"""kubelet's memory.available threshold where the configuration states none at all."""


def _amounts(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    amounts = config.get(key) or {}
    if not isinstance(amounts, dict):
        raise ValueError(f"{key} must be a mapping")  # noqa: TRY004
    return amounts


def _sum(*amounts: Any) -> Quantity | None:
    """Return the sum of the amounts that are stated; None if one is none, such as a percentage."""
    try:
        return Quantity(sum(Quantity.parse(str(each)).nano for each in amounts if each is not None))
    except QuantityError:
        return None


class _PodEntry(msgspec.Struct):
    cpus: str = msgspec.field(name="cpuSet", default="")


class _State(msgspec.Struct, rename="camel"):
    policy_name: str = ""
    entries: dict[str, dict[str, str]] | None = None
    pod_entries: dict[str, _PodEntry] | None = None


_DECODER = msgspec.json.Decoder(_State)


@dataclass(frozen=True, slots=True)
class CPUManager:
    """The active policy ("" if unknown), the UIDs of the pods that own CPUs by it, and which they own."""

    policy: str
    pinned: frozenset[str] = frozenset()
    exclusive: Mapping[str, CPUSet] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        return bool(self.policy)

    @property
    def writes_cpu_sets(self) -> bool:
        """Whether kubelet itself keeps the CPU sets of its containers."""
        return self.is_known and self.policy != NONE


NO_POLICY = CPUManager(NONE)
UNKNOWN_POLICY = CPUManager("")


def parse_state(text: bytes) -> CPUManager:
    """Read the content of the file.

    Raises:
        ValueError: if kubelet would not have written it.
    """
    try:
        state = _DECODER.decode(text)
        if state.policy_name != STATIC:
            return CPUManager(state.policy_name or NO_POLICY.policy)
        entries, of_pods = state.entries or {}, state.pod_entries or {}
        owned = {
            uid: CPUSet.of(
                cpu
                for cpus in (*entries.get(uid, {}).values(), of_pods.get(uid, _PodEntry()).cpus)
                for cpu in CPUSet.parse(cpus)
            )
            for uid in (*entries, *(uid for uid in of_pods if uid not in entries))
        }
        exclusive = {uid: cpus for uid, cpus in owned.items() if cpus}
        return CPUManager(STATIC, frozenset(exclusive), exclusive)
    except (*UNREADABLE, CPUSetError) as error:
        raise ValueError(str(error)) from error


class KubeletFile(Generic[T]):
    """One file; ``problem`` says why it could not be read the last time."""

    def __init__(self, path: Path, parse: Callable[[bytes], T], what: str, *, absent: T, unknown: T) -> None:
        self._path = path
        self._parse = parse
        self._what = what
        self._absent = absent
        self._content = unknown
        self._seen: tuple[int, int, int] | None = None
        self.problem: KernelError | None = None

    def read(self) -> T:
        """Return the content of the file, or its last readable content."""
        try:
            status = self._path.stat()
            # kubelet replaces the file: the inode tells two writes within one tick of the clock apart.
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._content = self._parse(self._path.read_bytes())
                self._seen = seen
            self.problem = None
        except (OSError, ValueError) as error:
            self._seen = None
            if isinstance(error, OSError):
                self.problem = reading_error(str(self._path), error)
            else:
                self.problem = Malformed(str(self._path), f"not {self._what}: {error}")
            if isinstance(self.problem, Missing):
                self._content, self.problem = self._absent, None
        return self._content


def config_file(root: Path) -> KubeletFile[KubeletConfig]:
    """Return the file with what kubelet keeps back."""
    what, nothing = "a configuration of kubelet", KubeletConfig()
    return KubeletFile(root / CONFIG_FILE, parse_config, what, absent=nothing, unknown=nothing)


def cpu_manager_file(root: Path) -> KubeletFile[CPUManager]:
    """Return the file with the state of kubelet's CPU manager."""
    what = "kubelet's state of the CPU manager"
    return KubeletFile(root / STATE_FILE, parse_state, what, absent=NO_POLICY, unknown=UNKNOWN_POLICY)

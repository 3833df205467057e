"""What kubelet keeps on the node's disk: the CPUs it reserves, and the pods its CPU manager has pinned.

``/var/lib/kubelet/config.yaml`` has ``reservedSystemCPUs``; kubeadm and most distributions keep kubelet's
configuration there. CPUs that kubelet reserves by its command line (``--reserved-cpus``) or another file are
not known here.

``/var/lib/kubelet/cpu_manager_state``: kubelet enters a container's exclusive CPUs there before the container
is created, and replaces the whole file. A pod counts as pinned if any of its containers is: the file names
containers by the pod's UID. Without the file the policy is ``none``. If it could never be read, pods that
might be pinned (Guaranteed ones) are left as they are.

A file is read again only when it has been replaced; if it cannot be read, its last good content counts.

Sources: KubeletConfiguration, kubelet.config.k8s.io/v1beta1; kubelet's
pkg/kubelet/cm/cpumanager/state/checkpoint.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from corewise.config.yaml_text import NotYAMLError, load_document
from corewise.kernel.errors import KernelError, Malformed, Missing, reading_error
from corewise.topology import CPUSet, CPUSetError
from corewise.vocabulary.errors import UNREADABLE

T = TypeVar("T")

CONFIG_FILE = "var/lib/kubelet/config.yaml"
STATE_FILE = "var/lib/kubelet/cpu_manager_state"
STATIC = "static"
NONE = "none"


def parse_reserved(text: bytes) -> CPUSet:
    """Read the content of the file.

    Raises:
        ValueError: if it is no configuration.
    """
    try:
        config: Any = load_document(text)
    except NotYAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error
    if not isinstance(config, dict):
        raise ValueError("it is no mapping")  # noqa: TRY004
    reserved = config.get("reservedSystemCPUs")
    return CPUSet() if reserved is None else CPUSet.parse(str(reserved))


class _State(msgspec.Struct, rename="camel"):
    policy_name: str = ""
    entries: dict[str, dict[str, str]] | None = None


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
        owned = {
            uid: CPUSet.of(cpu for cpus in containers.values() for cpu in CPUSet.parse(cpus))
            for uid, containers in (state.entries or {}).items()
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
        """Return what the file says, or said when it could last be read."""
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


def reserved_cpus_file(root: Path) -> KubeletFile[CPUSet]:
    """Return the file with the CPUs that kubelet reserves."""
    return KubeletFile(
        root / CONFIG_FILE, parse_reserved, "a configuration of kubelet", absent=CPUSet(), unknown=CPUSet()
    )


def cpu_manager_file(root: Path) -> KubeletFile[CPUManager]:
    """Return the file with the state of kubelet's CPU manager."""
    what = "kubelet's state of the CPU manager"
    return KubeletFile(root / STATE_FILE, parse_state, what, absent=NO_POLICY, unknown=UNKNOWN_POLICY)

"""Which pods kubelet's static CPU manager policy has pinned: ``/var/lib/kubelet/cpu_manager_state``.

kubelet enters a container's exclusive CPUs there before the container is created, and replaces the whole
file. A pod counts as pinned if any of its containers is: the file names containers by the pod's UID. Without
the file the policy is ``none``. If it cannot be read, its last good content stays; if there never was any,
pods that might be pinned (Guaranteed ones) are left as they are.

Source: kubelet's pkg/kubelet/cm/cpumanager/state/checkpoint.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec

from corewise.kernel.errors import KernelError, Malformed, Missing, reading_error
from corewise.topology import CPUSet, CPUSetError
from corewise.vocabulary.errors import UNREADABLE

STATE_FILE = "var/lib/kubelet/cpu_manager_state"
STATIC = "static"
NONE = "none"


class _State(msgspec.Struct, rename="camel"):
    policy_name: str = ""
    entries: dict[str, dict[str, str]] | None = None


_DECODER = msgspec.json.Decoder(_State)


def _no_cpus() -> Mapping[str, CPUSet]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CPUManager:
    """The policy in force ("" if unknown), the UIDs of the pods that own CPUs by it, and which they own."""

    policy: str
    pinned: frozenset[str] = frozenset()
    exclusive: Mapping[str, CPUSet] = field(default_factory=_no_cpus)

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
        sets = {uid: CPUSet.of(cpu for each in own for cpu in each) for uid, own in _sets(state).items()}
        exclusive = {uid: cpus for uid, cpus in sets.items() if cpus}
        return CPUManager(STATIC, frozenset(exclusive), MappingProxyType(exclusive))
    except (*UNREADABLE, CPUSetError) as error:
        raise ValueError(str(error)) from error


def _sets(state: _State) -> Mapping[str, list[CPUSet]]:
    entries = state.entries or {}
    return {uid: [CPUSet.parse(cpus) for cpus in sets.values()] for uid, sets in entries.items()}


class CPUManagerFile:
    """The file below a root, read again only when it has been replaced."""

    def __init__(self, root: Path) -> None:
        self._path = root / STATE_FILE
        self._seen: tuple[int, int, int] | None = None
        self._manager = UNKNOWN_POLICY
        self.problem: KernelError | None = None

    def read(self) -> CPUManager:
        """Return what the file says, or said when it could last be read; ``problem`` tells."""
        try:
            status = self._path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen != self._seen:
                self._manager = parse_state(self._path.read_bytes())
                self._seen = seen
            self.problem = None
        except OSError as error:
            self._failed(reading_error(str(self._path), error))
        except ValueError as error:
            self._failed(Malformed(str(self._path), f"not kubelet's state of the CPU manager: {error}"))
        return self._manager

    def _failed(self, error: KernelError) -> None:
        self._seen = None
        if isinstance(error, Missing):
            self._manager, self.problem = NO_POLICY, None
        else:
            self.problem = error

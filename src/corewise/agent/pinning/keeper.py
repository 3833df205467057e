"""Brings the CPU sets of one node's pods to what they own and share, again and again.

Each cycle is computed from the whole state and handed to the one writer of settings. As long as no pod claims
CPUs and nothing is set from before, nothing is read either. With the last owner everything goes back.

kubelet's static policy writes the CPU sets of its containers itself. Where it is in force nothing is set, and
what was set goes back: claims are problems. Where the policy is not known everything stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from corewise.actions import Setting, SettingOwner
from corewise.agent.cpu_manager import CPUManager
from corewise.agent.kubelet_config import KubeletConfigFile
from corewise.agent.node_cgroups import Found, NodeCgroups
from corewise.agent.objects import QuotaPod
from corewise.agent.pinning.cpu_sets import cpu_sets
from corewise.agent.pinning.division import Division, Ground, claimants, claimed, divide
from corewise.agent.pinning.ledger_report import print_ledger
from corewise.kernel.cgroups.cpu import read_cpuset, read_effective_cpuset
from corewise.kernel.cgroups.pods import QOSClass
from corewise.kernel.cpu_topology import read_cpus
from corewise.kernel.errors import KernelError, Missing, UnsafeName
from corewise.kernel.host_files import HostFiles
from corewise.kernel.settings.ledger import Place
from corewise.kernel.settings.values import list_of, setting_file
from corewise.kernel.writing.report import Written
from corewise.topology import CPUSet
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.vocabulary.reasons import Reason


@dataclass(slots=True)
class PinCycle:
    """What one cycle did. ``problems`` are sentences by pod or file."""

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


class PinKeeper:
    """The CPU sets of one node. Synchronous.

    ``division`` is that of the last cycle, ``report`` the ledger as the NodeResourceTopology is to tell it:
    "" until it is known.
    """

    def __init__(self, cgroups: NodeCgroups, root: Path, rules: QoSRules = DEFAULT_RULES) -> None:
        self._rules = rules
        self._held: Mapping[str, CPUSet] | None = None
        self._cgroups = cgroups
        self._root = root
        self._kubelet = KubeletConfigFile(root)
        self.division = Division()
        self.report = ""

    @property
    def reserved(self) -> CPUSet:
        """The CPUs that kubelet reserves for the system, as far as its configuration file tells."""
        return self._kubelet.read()

    def cycle(self, pods: Collection[QuotaPod], manager: CPUManager) -> PinCycle:
        """Bring every pod to its CPUs. Nothing raises but bugs."""
        result = PinCycle()
        try:
            found = self._cgroups.find()
        except KernelError as error:
            if claimants(pods):
                result.problems[error.path] = str(error)
            return result
        try:
            self._cycle(pods, found, manager, result)
        except KernelError as error:
            result.problems[error.path] = str(error)
        return result

    def _cycle(self, pods: Collection[QuotaPod], found: Found, manager: CPUManager, result: PinCycle) -> None:
        if not manager.is_known:
            self._wait(pods, found, result)
            return
        division = self._divide(pods, found, manager, result)
        if division is not None:
            self._held = {uid: owner.cpus for uid, owner in division.owners.items()}
            self.division, self.report = division, print_ledger(division, pods, manager)
            self._carry_out(pods, found, result)

    def _wait(self, pods: Collection[QuotaPod], found: Found, result: PinCycle) -> None:
        if claimants(pods) or _is_at_work(found):
            text = "CPU sets stay as they are: it is not known whether kubelet keeps them itself"
            result.problems["kubelet's CPU manager"] = text

    def _divide(
        self, pods: Collection[QuotaPod], found: Found, manager: CPUManager, result: PinCycle
    ) -> Division | None:
        """Return who owns what; None if it cannot be told, since the node does not tell its CPUs."""
        claims = claimants(pods)
        if not claims:
            return Division()
        if manager.writes_cpu_sets:
            refused = frozenset(pod.uid for pod in claims)
            return Division(problems=_left_to_kubelet(claims, manager), refused=refused)
        ground = self._ground(found, result)
        if ground is None:
            return None
        held = _recorded(claims, found, ground) if self._held is None else self._held
        return divide(claims, ground, held, self._rules)

    def _ground(self, found: Found, result: PinCycle) -> Ground | None:
        files = HostFiles(self._root)
        online, offline = read_cpus(files)
        result.problems.update({problem.path: str(problem) for problem in files.problems})
        reserved = self.reserved
        if self._kubelet.problem is not None:
            result.problems[self._kubelet.problem.path] = str(self._kubelet.problem)
        usable = _usable(found, online)
        if not usable:
            result.problems["CPUs"] = f"no CPU is online below {self._root}"
            return None
        return Ground(usable, offline, reserved)

    def _carry_out(self, pods: Collection[QuotaPod], found: Found, result: PinCycle) -> None:
        result.problems.update(self.division.problems)
        wanted = []
        if self.division.owners:
            wanted = list(cpu_sets(self.division, pods, found, result.problems))
        if wanted or _is_at_work(found):
            report = found.settings.reconcile(SettingOwner.PINNING, wanted)
            result.written += report.written
            result.drifted += report.drifted
            result.problems.update({file: str(error) for file, error in report.failed.items()})


def _usable(found: Found, online: CPUSet) -> CPUSet:
    """Return the CPUs online that kubelet's own cgroup has; all that are online if it does not tell."""
    read = read_cpuset if found.is_v1 else read_effective_cpuset
    try:
        cpus = read(found.files, found.names.kubepods)
    except Missing:
        return online
    return cpus & online if cpus else online


def _recorded(claims: Iterable[QuotaPod], found: Found, ground: Ground) -> Mapping[str, CPUSet]:
    """Return what pods owned when the last agent ended: their claims, where the journal has those CPUs."""
    held = {}
    for pod in claims:
        cpus = claimed(pod)
        if isinstance(cpus, str) or not pod.status.qos_class:
            continue
        with suppress(UnsafeName, ValueError):
            cgroup = found.names.pod(pod.uid, QOSClass(pod.status.qos_class))
            hold = found.settings.held.get(Place(cgroup, setting_file(found.files.version, Setting.CPUSET)))
            recorded = (hold.reason, hold.value) if hold is not None else None
            if recorded == (Reason.CPUS_OWNED, list_of(cpus & ground.online)):
                held[pod.uid] = cpus
    return held


def _is_at_work(found: Found) -> bool:
    """Whether something is set for pinning, or on its way back."""
    return any(hold.owner in {SettingOwner.PINNING, ""} for hold in found.settings.held.values())


def _left_to_kubelet(claims: Collection[QuotaPod], manager: CPUManager) -> dict[str, str]:
    problems: dict[str, str] = {}
    for pod in claims:
        cpus = claimed(pod)
        if isinstance(cpus, str):
            problems[pod.name] = cpus
        elif cpus:
            problems[pod.name] = (
                f"pod {pod.name} claims CPUs {cpus}, and kubelet keeps CPU sets itself (policy "
                f"{manager.policy}): nothing is written ({Reason.CPUS_MANAGED_BY_KUBELET})"
            )
    return problems

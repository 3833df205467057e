"""Brings the CPU sets of one node's pods to the CPUs that they own or share, again and again.

Each cycle is computed from the whole state: who owns what (:mod:`corewise.agent.claims`), which CPUs each
cgroup is to have (:func:`cpu_sets`); and handed to the one writer of settings. As long as no pod claims CPUs
and nothing is set from before, nothing is read either. With the last owner everything goes back.

kubelet's static policy writes the CPU sets of its containers itself. Where it is active nothing is set, and
what was set goes back: claims are problems. Where the policy is not known everything stays as it is.

A pod's own cgroup gets the pod's CPUs, and so does every cgroup directly below it, by whatever name: the
containers, those that the API does not show yet, and the sandbox. What lies deeper is within those.

What comes back is what was found. But on v1 a new cgroup begins with the CPUs of its parent: a container that
is made in a pod that is narrowed already gets back what the pod gets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.agent.cgroups import CgroupSetup, Cycle, NodeCgroups
from corewise.agent.claims import CPUDivision, NodeCPUs, claimants, claimed, divide, print_ledger
from corewise.agent.kubelet import CPUManager, KubeletConfig, config_file
from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.layout import QOSClass
from corewise.kernel.cgroups.resources import read_cpuset, read_effective_cpuset
from corewise.kernel.errors import KernelError, Missing, UnsafeName
from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import read_cpus
from corewise.kernel.writing.setting_claims import SettingFile, list_of, setting_file
from corewise.topology import CPUSet
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.vocabulary.reasons import Reason


def cpu_sets(
    division: CPUDivision, pods: Iterable[QuotaPod], found: CgroupSetup, problems: dict[str, str]
) -> Iterator[WriteSetting]:
    """Yield the CPU sets to write, for existing cgroups. Errors are added to ``problems``."""
    for pod in pods:
        if pod.has_ended or not pod.status.qos_class or not division.cpus_of(pod.uid):
            continue
        try:
            cgroup = found.names.pod(pod.uid, QOSClass(pod.status.qos_class))
            below = found.files.children(cgroup)
        except Missing:
            continue
        except (UnsafeName, ValueError) as error:
            problems[pod.name] = f"pod {pod.name} is left alone: {error}"
            continue
        except KernelError as error:
            problems[error.path] = str(error)
            continue
        owner = division.owners.get(pod.uid)
        owns = owner is not None and bool(owner.online)
        value, reason = list_of(division.cpus_of(pod.uid)), Reason.CPUS_OWNED if owns else Reason.CPUS_SHARED
        why = f"pod {pod.name} owns these CPUs" if owns else f"pod {pod.name} shares CPUs that no pod owns"
        bases = {each: _base(found, each, cgroup) for each in (cgroup, *below)}
        for each, base in bases.items():
            yield WriteSetting(each, Setting.CPUSET, SettingOwner.PINNING, value, base, reason, why)


def _base(found: CgroupSetup, cgroup: str, pod_cgroup: str) -> str | None:
    """Return the CPU set to restore to a cgroup later; None for the one that was found there."""
    if not found.is_v1 or cgroup == pod_cgroup:
        return None
    file = setting_file(found.files.version, Setting.CPUSET)
    claim, above = (found.settings.held.get(SettingFile(each, file)) for each in (cgroup, pod_cgroup))
    if claim is not None and claim.owner:
        return claim.base if claim.stated else None
    return above.base if above is not None else None


class CPUSetReconciler:
    """The CPU sets of one node. Synchronous.

    ``division`` is that of the last cycle, ``report`` the owners as the NodeResourceTopology shows them:
    "" until they are known.
    """

    def __init__(self, cgroups: NodeCgroups, root: Path, rules: QoSRules = DEFAULT_RULES) -> None:
        self._rules = rules
        self._held: Mapping[str, CPUSet] | None = None
        self._cgroups = cgroups
        self._root = root
        self._kubelet = config_file(root)
        self.division = CPUDivision()
        self.report = ""

    @property
    def reserved(self) -> CPUSet:
        """The CPUs that kubelet reserves for the system, if its configuration file states them."""
        return self.kubelet.reserved_cpus

    @property
    def kubelet(self) -> KubeletConfig:
        """The resources that kubelet reserves, if its configuration file states them."""
        return self._kubelet.read()

    def cycle(self, pods: Collection[QuotaPod], manager: CPUManager) -> Cycle:
        """Bring every pod to its CPUs. Nothing raises but bugs."""
        result = Cycle()
        claims = claimants(pods)
        try:
            found = self._cgroups.find()
        except KernelError as error:
            if claims:
                result.problems[error.path] = str(error)
            return result
        with result.noting_errors():
            if not manager.is_known:
                if claims or _is_at_work(found):
                    text = "CPU sets stay as they are: it is not known whether kubelet keeps them itself"
                    result.problems["kubelet's CPU manager"] = text
                return result
            division = self._divide(claims, found, manager, result)
            if division is None:
                return result
            self._held = {uid: owner.cpus for uid, owner in division.owners.items()}
            self.division, self.report = division, print_ledger(division, pods, manager)
            result.problems.update(division.problems)
            wanted = list(cpu_sets(division, pods, found, result.problems)) if division.owners else []
            if wanted or _is_at_work(found):
                result.add(found.settings.reconcile(SettingOwner.PINNING, wanted))
        return result

    def _divide(
        self, claims: Collection[QuotaPod], found: CgroupSetup, manager: CPUManager, result: Cycle
    ) -> CPUDivision | None:
        """Return the division of the CPUs; None if the node's CPUs cannot be read."""
        if not claims:
            return CPUDivision()
        if manager.writes_cpu_sets:
            refused = frozenset(pod.uid for pod in claims)
            return CPUDivision(problems=_left_to_kubelet(claims, manager), refused=refused)
        node_cpus = self._node_cpus(found, result)
        if node_cpus is None:
            return None
        held = _recorded(claims, found, node_cpus) if self._held is None else self._held
        return divide(claims, node_cpus, held, self._rules)

    def _node_cpus(self, found: CgroupSetup, result: Cycle) -> NodeCPUs | None:
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
        return NodeCPUs(usable, offline, reserved)


def _usable(found: CgroupSetup, online: CPUSet) -> CPUSet:
    """Return the CPUs online that kubelet's own cgroup has; all that are online if it does not tell."""
    read = read_cpuset if found.is_v1 else read_effective_cpuset
    try:
        cpus = read(found.files, found.names.kubepods)
    except Missing:
        return online
    return cpus & online if cpus else online


def _recorded(claims: Iterable[QuotaPod], found: CgroupSetup, node_cpus: NodeCPUs) -> Mapping[str, CPUSet]:
    """Return the CPUs that pods owned when the last agent ended: claims that the journal confirms."""
    held = {}
    for pod in claims:
        cpus = claimed(pod)
        if isinstance(cpus, str) or not pod.status.qos_class:
            continue
        with suppress(UnsafeName, ValueError):
            cgroup = found.names.pod(pod.uid, QOSClass(pod.status.qos_class))
            claim = found.settings.held.get(
                SettingFile(cgroup, setting_file(found.files.version, Setting.CPUSET))
            )
            recorded = (claim.reason, claim.value) if claim is not None else None
            if recorded == (Reason.CPUS_OWNED, list_of(cpus & node_cpus.online)):
                held[pod.uid] = cpus
    return held


def _is_at_work(found: CgroupSetup) -> bool:
    """Whether something is set for pinning, or on its way back."""
    return any(claim.owner in {SettingOwner.PINNING, ""} for claim in found.settings.held.values())


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

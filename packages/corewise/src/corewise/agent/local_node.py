"""One node as its agent works on it: the ratio in use, cgroups, kubelet's CPU manager; no API, no waiting.

So one process may keep one node or a thousand simulated ones. A cycle brings quotas and CPU sets to what they
should be. Until the Node has been seen, nothing is done.

The normalization ratio comes from the Node's annotation; without it the node is not normalized: 1.00. An
annotation that cannot be read, or is outside 1.00..5.00, changes nothing: the last good ratio stays, 1.00 if
there was none. The same holds for the annotation of workload ratios, which counts only beside a ratio: a pod
that an entry selects has the ratio of the entry (:mod:`corewise.config.workload_ratios`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from corewise.actions import WriteQuota
from corewise.agent.cgroups import Cycle, NodeCgroups
from corewise.agent.kubelet import CPUManager, cpu_manager_file
from corewise.agent.latest import Latest
from corewise.agent.objects import CertainPods, QuotaPod, QuotaPodStatus, certain_pods
from corewise.agent.pinning import CPUSetReconciler
from corewise.agent.problems import ProblemLog
from corewise.agent.quota_targets import container_cgroups
from corewise.agent.quotas import QuotaReconciler, Sharing, sharing_of
from corewise.amplification import read_node_in_force
from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO
from corewise.config.workload_ratios import (
    WorkloadRatio,
    WorkloadRatiosError,
    first_matching,
    read_workload_ratios,
)
from corewise.kernel.cgroups.layout import QOSClass
from corewise.kernel.errors import KernelError, UnsafeName
from corewise.quantities import MILLI, ONE, Ratio, RatioError
from corewise.service.logs import fields
from corewise.topology import CPUSet
from corewise.vocabulary.names import NORMALIZATION_RATIO, WORKLOAD_RATIOS
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules


@dataclass(frozen=True, slots=True)
class RatioInUse:
    """The ratio in use; ``problem`` says why it is not the one annotated."""

    ratio: Ratio
    problem: str = ""


NOT_NORMALIZED = RatioInUse(ONE)


def read_ratio(annotations: Mapping[str, str], before: RatioInUse) -> RatioInUse:
    """Return the reading that follows the one before."""
    text = annotations.get(NORMALIZATION_RATIO)
    if text is None:
        return NOT_NORMALIZED
    try:
        ratio = Ratio.parse(text)
    except RatioError as error:
        problem = str(error)
    else:
        if ONE <= ratio <= LARGEST_NORMALIZATION_RATIO:
            return RatioInUse(ratio)
        problem = f"{ratio} is outside {ONE}..{LARGEST_NORMALIZATION_RATIO}"
    return RatioInUse(before.ratio, f"annotation {NORMALIZATION_RATIO}: {problem}; {before.ratio} stays")


@dataclass(frozen=True, slots=True)
class WorkloadsInUse:
    """The workload ratios in use; ``problem`` says why they are not those annotated."""

    ratios: tuple[WorkloadRatio, ...] = ()
    problem: str = ""


def read_workloads(annotations: Mapping[str, str], before: WorkloadsInUse) -> WorkloadsInUse:
    """Return the reading that follows the one before."""
    if NORMALIZATION_RATIO not in annotations:
        return WorkloadsInUse()
    try:
        return WorkloadsInUse(read_workload_ratios(annotations.get(WORKLOAD_RATIOS)))
    except WorkloadRatiosError as error:
        return WorkloadsInUse(before.ratios, f"{error}; the workload ratios read last stay")


log = logging.getLogger(__name__)


class LocalNode:
    """One node. ``unreadable`` is called for each annotation of a ratio that cannot be read."""

    def __init__(
        self,
        name: str,
        root: Path,
        cgroups: NodeCgroups,
        *,
        unreadable: Callable[[], None] = lambda: None,
        problem_log: ProblemLog | None = None,
        rules: QoSRules = DEFAULT_RULES,
    ) -> None:
        self.name = name
        self.cgroups = cgroups
        self.problem_log = problem_log or ProblemLog(name)
        self._unreadable = unreadable
        self._quotas = QuotaReconciler(cgroups, rules)
        self.pins = CPUSetReconciler(cgroups, root, rules)
        self._cpu_manager_file = cpu_manager_file(root)
        self._certain_pods = Latest(certain_pods)
        self._started: dict[str, QuotaPod] = {}
        self._reading = NOT_NORMALIZED
        self._workloads = WorkloadsInUse()
        self._uid = ""
        self.rules = rules
        self.amplification = ONE
        self.is_seen = False

    @property
    def ratio(self) -> Ratio:
        return self._reading.ratio

    def ratio_of(self, pod: QuotaPod) -> Ratio:
        """Return the ratio for the quotas of a pod that shares CPUs: its workload's, or the node's."""
        entry = first_matching(self._workloads.ratios, pod.metadata.labels)
        return self.ratio if entry is None else entry.ratio

    @property
    def is_dividing(self) -> bool:
        """Whether the quotas of some pods are divided."""
        return any(each > ONE for each in (self.ratio, *(entry.ratio for entry in self._workloads.ratios)))

    def see(self, annotations: Mapping[str, str], uid: str = "") -> bool:
        """Take the annotations of the Node, and its UID; say whether a ratio has changed."""
        self._uid = uid or self._uid
        before = self._reading, self._workloads, self.amplification
        self._reading = read_ratio(annotations, self._reading)
        if self._reading.problem and self._reading != before[0]:
            self._unreadable()
        self.problem_log.update("ratio", {"ratio": self._reading.problem} if self._reading.problem else {})
        self._see_workloads(annotations)
        self.amplification = read_node_in_force(annotations).ratio("cpu") or self.amplification
        # A node that divides without offering more gives its pods less than they ask for.
        less = self.amplification < self.ratio
        problem = (
            f"normalized by {self.ratio} but amplified by {self.amplification} only: its pods get less time, "
            "and no more of them fit"
        )
        self.problem_log.update("amplification", {"amplification": problem} if less else {})
        if self.ratio != before[0].ratio or not self.is_seen:
            log.info("normalization ratio %s is applied", self.ratio, extra=fields(node=self.name))
        changed = (self._reading, self._workloads, self.amplification) != before or not self.is_seen
        self.is_seen = True
        return changed

    def _see_workloads(self, annotations: Mapping[str, str]) -> None:
        before = self._workloads
        self._workloads = now = read_workloads(annotations, before)
        if now.problem and now != before:
            self._unreadable()
        self.problem_log.update("workload ratios", {"workload ratios": now.problem} if now.problem else {})
        if now.ratios != before.ratios:
            stated = ", ".join(f"{each.name} {each.ratio}" for each in now.ratios) or "none"
            log.info("workload ratios are applied: %s", stated, extra=fields(node=self.name))

    def certain_pods(self, pods: Collection[QuotaPod]) -> CertainPods:
        """Find the pods whose cgroups are certain; have nothing written to those that two pods state."""
        certain = self._certain_pods(tuple(pods), self._uid)
        self.problem_log.update("pods", certain.problems)
        with suppress(KernelError):
            self.cgroups.find().leave_alone(certain.contested)
        return certain

    def cpu_manager(self) -> CPUManager:
        manager = self._cpu_manager_file.read()
        problem = self._cpu_manager_file.problem
        self.problem_log.update("kubelet's CPU manager", {"state": str(problem)} if problem else {})
        return manager

    def owned_by(self, pods: Iterable[QuotaPod]) -> Mapping[str, CPUSet]:
        """Return the CPUs of the pods that run on CPUs of their own alone, by UID."""
        owners, exclusive = self.pins.division.owners, self.cpu_manager().exclusive
        by_kubelet = {
            pod.uid: exclusive[pod.uid]
            for pod in (pods if exclusive else ())
            # one of its containers may share CPUs
            if pod.uid in exclusive and pod.cpu_request == len(exclusive[pod.uid]) * MILLI
        }
        return {**by_kubelet, **{uid: owner.cpus for uid, owner in owners.items()}}

    def divides(self, pod: QuotaPod) -> bool:
        """Whether the quotas of a pod are divided, by what is known now (the runtime knows no QoS class)."""
        if not self.is_seen or self.ratio_of(pod) == ONE or pod.has_claimed_cpu:
            return False
        qos_class = self.rules.class_of(pod.metadata.labels, pod.metadata.namespace)
        owns = self.pins.division.owns(pod)
        qos = pod.status.qos_class
        return sharing_of(qos_class, pod.uid, qos, self.cpu_manager(), owns=owns) is Sharing.SHARE

    def lifts(self, pod: QuotaPod) -> bool:
        """Whether the containers of a pod that the runtime reports have no quota, as its own cgroup has none.

        Only that shows whether kubelet enforces limits, and so what is to come back.
        """
        found, qos = self.cgroups.found, self._class_of(pod.uid)
        if found is None or not qos or not self.pins.division.owns(pod):
            return False
        bound = found.held(found.names.pod(pod.uid, QOSClass(qos)))
        return bound is not None and bound.quota is None

    @property
    def answered(self) -> set[str]:
        """The IDs of new containers whose runtime was answered another quota than kubelet's."""
        return self._quotas.answered

    def bounds(self, pods: Collection[QuotaPod]) -> Mapping[str, WriteQuota]:
        """Return the bounds of running containers, by the runtime's ID ("containerd://…")."""
        found = self.cgroups.found
        if found is None:
            return {}
        bounds = {}
        for pod in self.certain_pods(pods).pods:
            for container_id, cgroup in container_cgroups(pod, found.names):
                held = found.held(cgroup)
                if held is not None:
                    bounds[container_id] = held
        return bounds

    def cycle(self, pods: Collection[QuotaPod]) -> Cycle:
        manager, certain = self.cpu_manager(), self.certain_pods(pods)
        # Who owns CPUs is decided first: a claim that is believed exempts a pod from division.
        pins = self.pins.cycle(self._with_started(certain.pods, pods), manager)
        cycle = self._quotas.cycle(certain.pods, self.ratio_of, manager, self.pins.division.owns)
        self.problem_log.update("quotas", cycle.problems)
        for write in cycle.written:
            log.debug("wrote %s", write.cgroup, extra=fields(file=write.file, old=write.old, new=write.new))
        for cgroup in cycle.drifted:
            log.info("somebody else had changed a quota", extra=fields(cgroup=cgroup, node=self.name))
        if cycle.written:
            log.info(
                "wrote quotas", extra=fields(node=self.name, ratio=self.ratio, writes=len(cycle.written))
            )
        cycle.problems |= {**certain.problems, **self._refused_classes(certain.pods)}
        self._report_pins(pins)
        cycle.written += pins.written
        cycle.drifted += pins.drifted
        cycle.problems |= pins.problems
        return cycle

    def _refused_classes(self, pods: Collection[QuotaPod]) -> Mapping[str, str]:
        """Report and return the pods that state a QoS class that their namespace does not allow."""
        problems = {
            pod.name: f"pod {pod.name} counts as having no QoS class: {refused.message} ({refused.reason})"
            for pod in pods
            if not pod.has_ended
            and (refused := self.rules.class_problem(pod.metadata.labels, pod.metadata.namespace))
        }
        self.problem_log.update("QoS classes", problems)
        return problems

    def receive(self, newcomer: QuotaPod, pods: Collection[QuotaPod]) -> None:
        """Bring a pod that the runtime has started to its CPUs, also before the API shows it."""
        if self.is_seen:
            # The runtime does not know the QoS class; the place of the pod's cgroup shows it.
            status = QuotaPodStatus(qos_class=self._class_of(newcomer.uid))
            self._started[newcomer.uid] = msgspec.structs.replace(newcomer, status=status)
            known = self._with_started(self.certain_pods(pods).pods, pods)
            self._report_pins(self.pins.cycle(known, self.cpu_manager()))

    def _with_started(
        self, certain: Collection[QuotaPod], shown: Collection[QuotaPod]
    ) -> Collection[QuotaPod]:
        """Return certain pods, and those that the runtime has started and the API does not show yet.

        A pod that the API shows is not taken from the runtime instead when its cgroup is uncertain: the
        runtime does not know its request, by which its claim to CPUs is checked.
        """
        if not self._started:
            return certain
        known = {pod.uid for pod in shown}
        started = self._started.items()
        self._started = {uid: pod for uid, pod in started if uid not in known and self._class_of(uid)}
        return [*certain, *self._started.values()]

    def _class_of(self, uid: str) -> str:
        """Return the QoS class under which kubelet has made a pod's cgroup; "" if there is none."""
        found = self.cgroups.found
        if found is None:
            return ""
        try:
            return next((qos for qos in QOSClass if found.files.exists(found.names.pod(uid, qos))), "")
        except UnsafeName:
            return ""

    def _report_pins(self, pins: Cycle) -> None:
        self.problem_log.update("CPU sets", pins.problems)
        for file in pins.drifted:
            log.info("somebody else had changed a setting", extra=fields(file=file, node=self.name))
        if pins.written:
            owned, shared = self.pins.division.owned, self.pins.division.shared
            log.info(
                "wrote CPU sets",
                extra=fields(node=self.name, owned=owned, shared=shared, writes=len(pins.written)),
            )

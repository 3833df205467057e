"""The quotas of online pods: divided by a ratio where a pod shares CPUs, none where it owns them.

Each cycle is computed from the whole state: which cgroups each pod has (:func:`targets_of`), what each is to
have (:class:`QuotaPlan`), and what the one writer has to write for that (:class:`QuotaReconciler`).

*Whose.* The quota of a CPUShare pod is divided. That of a pod that owns CPUs by a claim is lifted, on the pod
and its containers: otherwise the kernel throttles it on CPUs that no other pod may use. That of every other
pod is kubelet's own. CPUShare is every pod but those that are SYSTEM (in a namespace that may have such pods)
or BE, and those that own CPUs: by kubelet's static policy, or, if LSR or LSE, by a claim that is believed
(:mod:`corewise.agent.claims`). The labels LSR and LSE alone exempt no pod: whoever creates a pod writes them.

*By what.* By the ratio of the pod's workload, if the Node states one, else by that of the node. Labels decide
that, and may change while the pod runs.

*Of what.* Of the quota that the pod's limits give (:mod:`corewise.agent.quota_targets`). That base is to be
kubelet's, so what kubelet computes in another way is left alone: the quotas of a pod whose ResourceClaims
bring CPU (KEP-5517), and a cgroup that has more than the base when it is seen for the first time.

*Which cgroups.* There are five cases:

- a CPUShare pod's, under a ratio above 1.00: bounded by the divided quota, drift repaired;
- that of a pod that owns CPUs: unlimited, drift repaired, as long as its CPU set holds it to them;
- held from before, but no longer to be divided or lifted (ratio 1.00, pod no longer CPUShare, limit gone):
  kubelet's quota, as the spec has it now, is put back. The cgroup is forgotten, but a CPUShare pod's running
  container stays held at that quota: its runtime has the divided one on record (NRI), and writes it again
  when it updates another resource. The same holds for a container that its runtime gave another quota (NRI),
  if the API shows it only now;
- held, but what it should have is uncertain (a resize waits, kubelet's state cannot be read): stays as is;
- everything else is not touched, and mostly not even read.

A cgroup that is seen for the first time and is unlimited although its pod has a limit is left alone: kubelet
does not enforce limits here (``--cpu-cfs-quota=false``), or a runtime is about to. But in a pod whose own
quota is lifted such a container was created so (NRI), and is held as one that was lifted here. A cgroup that
is not there is no error: its container has ended, or will start later. The period of a held cgroup is known;
that of any other is read once. If it has changed, the writer reports it, and the quota is computed again in
the same cycle. What goes wrong with one cgroup is one of the cycle's problems; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from corewise.actions import QuotaOwner, WriteQuota
from corewise.agent.cgroups import CgroupSetup, Cycle, NodeCgroups
from corewise.agent.claims import claimed
from corewise.agent.kubelet import CPUManager
from corewise.agent.objects import QuotaPod, QuotaPodSpec
from corewise.agent.quota_targets import Target, spec_in_force, targets_of
from corewise.kernel.cgroups.files import ancestors
from corewise.kernel.cgroups.layout import PodCgroups, QOSClass
from corewise.kernel.cgroups.resources import read_bandwidth, read_cpuset
from corewise.kernel.errors import KernelError, Missing, UnsafeName
from corewise.quantities import ONE, Microseconds, Ratio
from corewise.vocabulary.qos import DEFAULT_RULES, EXEMPT_CLASSES, OWNERS_OF_CPUS, QoSRules
from corewise.vocabulary.reasons import Reason


class Sharing(Enum):
    """Whether a pod's quotas are divided."""

    SHARE = "CPUShare pod"
    EXEMPT = "not a CPUShare pod"
    OWNS = "owns CPUs"
    """Its quotas are lifted: the CPUs that it owns bound it."""
    UNCERTAIN = "not known to be a CPUShare pod"
    """Its quotas stay as they are."""


def sharing_of(
    qos_class: str, uid: str, qos: str, manager: CPUManager, *, owns: bool | None = None
) -> Sharing:
    """Say whether a pod shares CPUs.

    ``qos_class`` is the class that counts (:mod:`corewise.vocabulary.qos`), ``owns`` whether the pod owns
    CPUs by its claim, None if that is not decided. ``qos`` is the class by Kubernetes, taken for Guaranteed
    if unknown.
    """
    if qos_class in EXEMPT_CLASSES or uid in manager.pinned:
        # SYSTEM, BE, or CPUs by kubelet's static policy: never touched
        return Sharing.EXEMPT
    if qos_class in OWNERS_OF_CPUS and owns is not False:
        # LSR or LSE with an accepted claim: lifted; with an undecided one: as they are
        return Sharing.OWNS if owns else Sharing.UNCERTAIN
    if not manager.is_known and qos not in {QOSClass.BURSTABLE, QOSClass.BEST_EFFORT}:
        # cpu_manager_state unreadable, and the pod may own CPUs: as they are
        return Sharing.UNCERTAIN
    # any other, also LSR or LSE without a claim or with a refused one: divided
    return Sharing.SHARE


class _KnownTargets:
    """The targets of a pod, which stay the same as long as the pod, its spec in force and the layout do."""

    def __init__(self, pod: QuotaPod, spec: QuotaPodSpec, cgroups: PodCgroups) -> None:
        self._pod, self._spec, self._cgroups = pod, spec, cgroups
        self.targets = tuple(targets_of(pod, spec, cgroups))

    def holds(self, pod: QuotaPod, spec: QuotaPodSpec, cgroups: PodCgroups) -> bool:
        return pod is self._pod and spec is self._spec and cgroups == self._cgroups


def _is_confined(pod: QuotaPod, found: CgroupSetup) -> bool:
    """Whether the kernel keeps a pod to CPUs that it claims: without a quota nothing else would bound it."""
    cpus = claimed(pod)
    try:
        kept = read_cpuset(found.files, found.names.pod(pod.uid, QOSClass(pod.status.qos_class)))
    except KernelError:
        return False
    return not isinstance(cpus, str) and bool(kept) and not kept - cpus


def divided(target: Target, period: Microseconds, ratio: Ratio, *, above_bases: bool) -> WriteQuota:
    """Bound a cgroup by its quota under the ratio."""
    quota = target.quota(period, ratio, above_bases=above_bases)
    base = target.quota(period, ONE)
    return _action(target, period, quota, Reason.QUOTA_NORMALIZED, f"{base} / {ratio}")


def lifted(target: Target, period: Microseconds) -> WriteQuota:
    """Free a cgroup whose pod owns CPUs of its quota."""
    return _action(target, period, None, Reason.QUOTA_LIFTED, "the pod owns CPUs, which bound it")


def undivided(target: Target, period: Microseconds, why: str) -> WriteQuota:
    """Give a cgroup kubelet's quota back."""
    return _action(target, period, target.quota(period, ONE), Reason.QUOTA_RESTORED, why)


def _action(
    target: Target, period: Microseconds, quota: Microseconds | None, reason: Reason, why: str
) -> WriteQuota:
    label = f"pod {target.pod}" + (f" container {target.container}" if target.container else "")
    return WriteQuota(
        cgroup=target.cgroup,
        owner=QuotaOwner.NORMALIZATION,
        quota=quota,
        base=target.quota(period, ONE),
        period=period,
        reason=reason,
        why=f"{label}: {why}",
    )


Owns = Callable[[QuotaPod], bool | None]
"""Whether a pod owns CPUs by its claim; None if it claims some and that is not decided yet."""

RatioOf = Callable[[QuotaPod], Ratio]
"""The ratio of a pod: its workload's, or the node's."""


_Action: TypeAlias = tuple[Target, tuple[Microseconds, Ratio, bool, bool], WriteQuota]
"""The target, the inputs and the resulting bound of a cgroup."""


@dataclass(slots=True)
class QuotaPlan:
    """The plan of one cycle: first the actions ``back``, then ``bound``, which are all that stays held.

    ``known`` are the periods of cgroups that the last cycle knew, ``periods`` those that this one knows;
    likewise ``before`` and ``actions``. ``owners``: the cgroups of pods that own CPUs. ``answered`` is as in
    :class:`QuotaReconciler`.
    """

    found: CgroupSetup
    known: Mapping[str, Microseconds]
    before: Mapping[str, _Action]
    answered: Collection[str]
    problems: dict[str, str]
    targets: dict[str, Target] = field(default_factory=dict)
    ratios: dict[str, Ratio] = field(default_factory=dict)
    periods: dict[str, Microseconds] = field(default_factory=dict)
    actions: dict[str, _Action] = field(default_factory=dict)
    back: list[WriteQuota] = field(default_factory=list)
    bound: list[WriteQuota] = field(default_factory=list)
    owners: set[str] = field(default_factory=set)

    def add(self, target: Target, sharing: Sharing, ratio: Ratio) -> None:
        """Decide what a cgroup is to have under its pod's ratio, if anything."""
        held = self.found.held(target.cgroup)
        if sharing is Sharing.UNCERTAIN:
            # held, but what it should have is uncertain: stays as is
            self.bound += [held] if held else []
            return
        was_set = held is None and self._is_set_by_runtime(target)
        changes = sharing is Sharing.OWNS or (sharing is Sharing.SHARE and ratio > ONE)
        if not (held or was_set) and (not changes or target.is_unlimited):
            # neither held nor to be changed: not even read
            return
        known = self.known.get(target.cgroup) or (held.period if held else None)
        period = known or self._read_period(target, even_unlimited=was_set)
        if period is None:
            # unlimited although its pod has a limit, or gone: left alone
            return
        self.targets[target.cgroup], self.periods[target.cgroup] = target, period
        self.ratios[target.cgroup] = ratio
        if sharing is Sharing.OWNS:
            self.owners.add(target.cgroup)
        action = self.action(target, period)
        if changes and action.quota != action.base:
            # CPUShare under a ratio above 1.00: divided; owns CPUs: lifted
            self.bound.append(action)
        elif (held or was_set) and sharing is Sharing.EXEMPT:
            # pod no longer CPUShare: kubelet's quota
            self.back.append(undivided(target, period, sharing.value))
        elif held or was_set:
            # ratio 1.00, or limit gone: kubelet's quota
            why = f"the ratio is {ratio}" if ratio == ONE else "the limit leaves nothing to divide"
            restored = undivided(target, period, why)
            is_recorded = target.container and restored.base is not None
            # the runtime may write the quota that it recorded again: a container's is held at kubelet's
            (self.bound if is_recorded else self.back).append(restored)

    def action(self, target: Target, period: Microseconds) -> WriteQuota:
        """Return the bound of a cgroup: that of the last cycle if the target is the same, else a new one."""
        owns = target.cgroup in self.owners
        ratio = self.ratios[target.cgroup]
        made_of = period, ratio, owns, self.found.is_v1
        before = self.before.get(target.cgroup)
        if before is not None and before[0] is target and before[1] == made_of:
            action = before[2]
        elif owns:
            action = lifted(target, period)
        else:
            action = divided(target, period, ratio, above_bases=self.found.is_v1)
        self.actions[target.cgroup] = target, made_of, action
        return action

    def _is_set_by_runtime(self, target: Target) -> bool:
        """Whether a container that is new may have begun with another quota than kubelet's (NRI).

        After a restart, only a pod whose own quota is lifted shows that. Where the limits give no quota they
        are older than what kubelet asked of the runtime: a resize has added one.
        """
        if target.is_unlimited:
            return False
        if target.container_id in self.answered:
            return True
        above = self.found.held(next(ancestors(target.cgroup))) if target.container else None
        return above is not None and above.quota is None

    def _read_period(self, target: Target, *, even_unlimited: bool) -> Microseconds | None:
        """Return the period of a cgroup that is new, if it is there and has a quota of its pod's limits."""
        try:
            bandwidth = read_bandwidth(self.found.files, target.cgroup)
        except Missing:
            return None
        except KernelError as error:
            self.problems[target.cgroup] = str(error)
            return None
        if bandwidth.quota is None:
            return bandwidth.period if even_unlimited else None
        base = target.quota(bandwidth.period, ONE)
        # runtimes round a quota that systemd writes up to 10 ms a second
        if base is not None and bandwidth.quota > base + bandwidth.period // 100:
            self.problems[target.cgroup] = (
                f"the quota of cgroup {target.cgroup} of pod {target.pod} is left alone: it is "
                f"{bandwidth.quota} us, and the pod's limits give {base} us ({Reason.QUOTA_NOT_OF_LIMIT})"
            )
            return None
        return bandwidth.period


class QuotaReconciler:
    """The quotas of one node. Synchronous; a cycle over 330 cgroups takes milliseconds."""

    def __init__(self, cgroups: NodeCgroups, rules: QoSRules = DEFAULT_RULES) -> None:
        self._cgroups = cgroups
        self._rules = rules
        self._specs: dict[str, QuotaPodSpec] = {}
        self._known: dict[str, _KnownTargets] = {}
        self._periods: dict[str, Microseconds] = {}
        self._actions: dict[str, _Action] = {}
        self.answered: set[str] = set()
        """The IDs of containers whose runtime gave them another quota than kubelet's (NRI), until a cycle
        has seen to them."""

    def cycle(self, pods: Iterable[QuotaPod], ratio_of: RatioOf, manager: CPUManager, owns: Owns) -> Cycle:
        """Bring every cgroup to its quota. Nothing raises but bugs."""
        result = Cycle()
        self._cgroups.close_vanished()
        with result.noting_errors():
            found = self._cgroups.find()
            plan = QuotaPlan(found, self._periods, self._actions, self.answered, result.problems)
            specs: dict[str, QuotaPodSpec] = {}
            kept: dict[str, _KnownTargets] = {}
            for pod in pods:
                if pod.has_ended or not pod.status.qos_class:
                    continue
                spec = spec_in_force(pod, self._specs.get(pod.uid))
                sharing = Sharing.UNCERTAIN
                try:
                    if spec is not None:
                        specs[pod.uid] = spec
                        sharing = self._sharing(pod, manager, owns, found, result)
                    known = self._known.get(pod.uid)
                    if known is None or not known.holds(pod, spec or pod.spec, found.names):
                        known = _KnownTargets(pod, spec or pod.spec, found.names)
                    kept[pod.uid] = known
                    ratio = ratio_of(pod)
                    for target in known.targets:
                        plan.add(target, sharing, ratio)
                except (UnsafeName, ValueError) as error:
                    result.problems[pod.name] = f"pod {pod.name} is left alone: {error}"
            self._specs, self._known, self._periods = specs, kept, plan.periods
            result.bound = len(plan.bound)
            if plan.back:
                result.add(found.writer.apply(plan.back))
            report = found.writer.reconcile(QuotaOwner.NORMALIZATION, plan.bound)
            result.add(report)
            foreign = {
                cgroup: period for cgroup, period in report.foreign_periods.items() if cgroup in plan.periods
            }
            if foreign:
                plan.periods.update(foreign)
                actions = [plan.action(plan.targets[cgroup], period) for cgroup, period in foreign.items()]
                result.add(found.writer.apply(actions))
            self._actions = plan.actions
            self.answered.difference_update(
                target.container_id
                for cgroup, target in plan.targets.items()
                if cgroup not in result.problems
            )
        return result

    def _sharing(
        self, pod: QuotaPod, manager: CPUManager, owns: Owns, found: CgroupSetup, result: Cycle
    ) -> Sharing:
        """Say whether a pod shares CPUs, by what its cgroups have and kubelet computes as well."""
        qos_class = self._rules.class_of(pod.metadata.labels, pod.metadata.namespace)
        sharing = sharing_of(qos_class, pod.uid, pod.status.qos_class, manager, owns=owns(pod))
        if sharing is Sharing.OWNS and not _is_confined(pod, found):
            return Sharing.EXEMPT
        if sharing is Sharing.SHARE and pod.has_claimed_cpu:
            claimed_cpu = f"its ResourceClaims bring CPU ({Reason.QUOTA_NOT_OF_LIMIT})"
            result.problems[pod.name] = f"the quotas of pod {pod.name} are left alone: {claimed_cpu}"
            return Sharing.EXEMPT
        return sharing

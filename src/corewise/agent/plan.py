"""What one cycle is to do about quotas, from everything that is known now.

There are four cases for a cgroup:

- a CPUShare pod's, under a ratio above 1.00: bounded by the divided quota, drift repaired;
- held from before, but no longer to be divided (ratio 1.00, pod no longer CPUShare, limit gone): kubelet's
  quota, as the spec has it now, is put back, and the cgroup forgotten;
- held, but what it should have is uncertain (a resize waits, kubelet's state cannot be read): stays as is;
- everything else is not touched, and mostly not even read.

A cgroup that is met for the first time and is unlimited although its pod has a limit is left alone: kubelet
does not enforce limits here (``--cpu-cfs-quota=false``), or a runtime is about to. A cgroup that is not
there is no error: its container has ended, or has not begun.

Of a held cgroup the period is known; of any other it is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from corewise.actions import WriteQuota
from corewise.agent.cpu_manager import CPUManager
from corewise.agent.node_cgroups import Found
from corewise.agent.objects import QuotaPod, QuotaPodSpec
from corewise.agent.quotas import Standing, Target, divided, spec_in_force, standing_of, targets_of, undivided
from corewise.kernel.cgroups.cpu import read_bandwidth
from corewise.kernel.errors import KernelError, Missing, UnsafeName
from corewise.quantities import ONE, Microseconds, Ratio
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules

Owns = Callable[[QuotaPod], bool | None]
"""Whether a pod owns CPUs by its claim; None if that is not decided yet."""


@dataclass(slots=True)
class Memory:
    """What the next cycle needs to know of this one: specs in force by pod, periods by cgroup."""

    specs: dict[str, QuotaPodSpec] = field(default_factory=dict)
    periods: dict[str, Microseconds] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """The actions: ``back`` first, then ``bound``: all that stays held. ``problems`` are by object."""

    found: Found
    ratio: Ratio
    manager: CPUManager
    before: Memory
    owns: Owns
    rules: QoSRules = DEFAULT_RULES
    after: Memory = field(default_factory=Memory)
    targets: dict[str, Target] = field(default_factory=dict)
    back: list[WriteQuota] = field(default_factory=list)
    bound: list[WriteQuota] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, pod: QuotaPod) -> None:
        """Plan for a pod."""
        if pod.has_ended or not pod.status.qos_class:
            return
        spec = spec_in_force(pod, self.before.specs.get(pod.uid))
        standing = Standing.UNCERTAIN
        if spec is not None:
            self.after.specs[pod.uid] = spec
            standing = self._standing(pod)
        try:
            for target in targets_of(pod, spec or pod.spec, self.found.names):
                self.targets[target.cgroup] = target
                self._add(target, standing)
        except (UnsafeName, ValueError) as error:
            self.problems[pod.name] = f"pod {pod.name} is left alone: {error}"

    def divided(self, target: Target) -> WriteQuota:
        """Return the bound of a cgroup whose period is known."""
        period = self.after.periods[target.cgroup]
        return divided(target, period, self.ratio, above_bases=self.found.is_v1)

    def _standing(self, pod: QuotaPod) -> Standing:
        qos_class = self.rules.class_of(pod.metadata.labels, pod.metadata.namespace)
        return standing_of(qos_class, pod.uid, pod.status.qos_class, self.manager, owns=self.owns(pod))

    def _add(self, target: Target, standing: Standing) -> None:
        held = self.found.held(target.cgroup)
        if standing is Standing.UNCERTAIN:
            if held:
                self.bound.append(held)
            return
        divides = standing is Standing.SHARE and self.ratio > ONE
        if not held and (not divides or target.is_unlimited):
            return
        period = self._period(target, held)
        if period is None:
            return
        self.after.periods[target.cgroup] = period
        action = self.divided(target)
        if divides and action.quota != action.base:
            self.bound.append(action)
        elif held:
            self.back.append(undivided(target, period, _why_not(standing, self.ratio)))

    def _period(self, target: Target, held: WriteQuota | None) -> Microseconds | None:
        known = self.before.periods.get(target.cgroup)
        if known is not None:
            return known
        return held.period if held else self._met(target)

    def _met(self, target: Target) -> Microseconds | None:
        """Return the period of a cgroup that is there, and bounded as its limit says."""
        try:
            bandwidth = read_bandwidth(self.found.files, target.cgroup)
        except Missing:
            return None
        except KernelError as error:
            self.problems[target.cgroup] = str(error)
            return None
        return None if bandwidth.quota is None else bandwidth.period


def _why_not(standing: Standing, ratio: Ratio) -> str:
    if standing is Standing.EXEMPT:
        return str(standing.value)
    return f"the ratio is {ratio}" if ratio == ONE else "the limit leaves nothing to divide"

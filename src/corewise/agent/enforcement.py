"""Brings the cgroups of one node to the quotas that its pods and its ratio call for, again and again.

Each cycle is computed from the whole state (:mod:`corewise.agent.plan`) and handed to the one writer. If the
period of a cgroup has changed, the writer tells, and what depends on it is computed anew in the same cycle.
What goes wrong with one cgroup stands in the cycle's problems; the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from corewise.actions import QuotaOwner
from corewise.agent.cpu_manager import CPUManager
from corewise.agent.node_cgroups import Found, NodeCgroups
from corewise.agent.objects import QuotaPod
from corewise.agent.plan import Memory, Owns, Plan
from corewise.kernel.errors import KernelError
from corewise.kernel.writing.report import Report, Written
from corewise.quantities import Ratio
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules


@dataclass(slots=True)
class Cycle:
    """What one cycle did. ``problems`` are sentences by what they are about; ``bound`` counts cgroups."""

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    bound: int = 0

    def add(self, report: Report) -> None:
        self.written += report.written
        self.drifted += report.drifted
        self.problems |= {cgroup: str(error) for cgroup, error in report.failed.items()}


class QuotaKeeper:
    """The quotas of one node. Synchronous; a cycle over 330 cgroups takes milliseconds."""

    def __init__(self, cgroups: NodeCgroups, rules: QoSRules = DEFAULT_RULES) -> None:
        self._cgroups = cgroups
        self._rules = rules
        self._memory = Memory()

    def cycle(self, pods: Iterable[QuotaPod], ratio: Ratio, manager: CPUManager, owns: Owns) -> Cycle:
        """Bring every cgroup to its quota. Nothing raises but bugs."""
        result = Cycle()
        self._cgroups.close_vanished()
        try:
            found = self._cgroups.find()
            plan = Plan(found, ratio, manager, self._memory, owns, self._rules, problems=result.problems)
            for pod in pods:
                plan.add(pod)
            self._memory = plan.after
            result.bound = len(plan.bound)
            self._carry_out(plan, found, result)
        except KernelError as error:
            result.problems[error.path] = str(error)
        return result

    @staticmethod
    def _carry_out(plan: Plan, found: Found, result: Cycle) -> None:
        if plan.back:
            result.add(found.writer.apply(plan.back))
        report = found.writer.reconcile(QuotaOwner.NORMALIZATION, plan.bound)
        result.add(report)
        known = plan.after.periods
        foreign = {cgroup: period for cgroup, period in report.foreign_periods.items() if cgroup in known}
        if foreign:
            known |= foreign
            result.add(found.writer.apply([plan.divided(plan.targets[cgroup]) for cgroup in foreign]))

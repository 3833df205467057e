"""Limits on offline pods of a simulated machine in a closed loop: the agent's, none, and a wrong idea's.

:class:`Agent` is the agent's own code. :class:`CountingOffline` takes what offline pods use for used up, as
formulas do that go by the node's usage as a whole. With a ratio ``r`` and ``idle`` what online pods leave,
its target is ``(idle - offline) x r``. If it comes to rest, that is where offline = target: at ``idle x r /
(1 + r)``, 37.5 % of idle for 0.60; without smoothing and steps it goes there in swings, each ``r`` times
the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.sampler import Missed, Sampler
from corewise.config.colocation import OversubscriptionSettings, SuppressionMode, SuppressionSettings
from corewise.kernel.writing.journal import MemoryLog
from corewise.quantities import ONE, Share
from corewise.suppression.offer import OfferHistory, OfflineAmounts, compute
from corewise.suppression.quotas import adjust
from corewise.vocabulary.names import OVERSUBSCRIPTION
from corewise_lab.machines import Machine
from corewise_lab.node_cgroups import BEST_EFFORT, MOUNT, PERIOD, read_quota


@dataclass(frozen=True, slots=True)
class Held:
    """The bound on offline pods after a look, in milli-CPU; None is no bound."""

    quota: int | None = None
    target: int | None = None


class Holder(Protocol):
    """Something that looks at a machine every interval, and may hold its offline pods back."""

    def look(self, now: float) -> Held: ...


ALL = Share(10_000)

Begin = Callable[[Path, Machine, Sequence[QuotaPod]], Holder]
"""Makes a holder for a machine's tree and pods."""


class Nobody:
    """Limits no pods."""

    def look(self, now: float) -> Held:
        return Held()


class Agent:
    """The agent's own code: all of its node's part that is about offline pods."""

    def __init__(
        self,
        root: Path,
        machine: Machine,
        pods: Sequence[QuotaPod],
        suppression: SuppressionSettings,
        oversubscription: OversubscriptionSettings,
    ) -> None:
        self._root, self._pods = root, pods
        cgroups = NodeCgroups(root, "/", MemoryLog(), now=lambda: 0.0)
        self.controller = OfflineController(LocalNode(machine.name, root, cgroups), root)
        self.controller.configure(oversubscription, suppression)
        self.controller.observe(
            {OVERSUBSCRIPTION: "true"}, OfflineAmounts(machine.allocatable_milli, machine.memory), ONE
        )

    def look(self, now: float) -> Held:
        tick = self.controller.tick(now, now, self._pods)
        holds = tick.report.suppression if tick.report else None
        if holds is None:
            return Held()
        if holds.mode == SuppressionMode.PER_POD_QUOTA:
            return Held(pods_together(self._root))
        return Held(holds.quota_milli, holds.target_milli)


def suppressed(
    suppression: SuppressionSettings,
    oversubscription: OversubscriptionSettings | None = None,
) -> Begin:
    """Return a function that begins an agent with these settings."""
    settings = oversubscription or OversubscriptionSettings()
    return lambda root, machine, pods: Agent(root, machine, pods, suppression, settings)


def pods_together(root: Path) -> int | None:
    """Return the sum of the offline pods' quotas, in milli-CPU; None if one of them has none."""
    pods = (root / MOUNT / BEST_EFFORT).iterdir()
    quotas = [read_quota(root, f"{BEST_EFFORT}/{each.name}") for each in pods if each.is_dir()]
    return None if None in quotas else round(sum(quota or 0.0 for quota in quotas) * 1000)


class CountingOffline:
    """Offers a part of the node's idle CPU, counting offline pods' usage as used. No repair, no journal.

    With ``gently`` it smooths and steps as the agent does; without, the quota is the last sample's target.
    """

    def __init__(self, root: Path, machine: Machine, *, gently: bool) -> None:
        self._root, self._gently = root, gently
        self._sampler = Sampler(root, NodeCgroups(root, "/", MemoryLog(), now=lambda: 0.0))
        self._allocatable = OfflineAmounts(machine.allocatable_milli, machine.memory)
        self._history = OfferHistory()
        self._quota: int | None = None

    def look(self, now: float) -> Held:
        usage = self._sampler.sample(now)
        if isinstance(usage, Missed):
            return Held()
        settings, milli = SuppressionSettings(), self._allocatable.cpu_milli
        computed = compute(
            replace(usage, offline_milli=0), self._allocatable, OversubscriptionSettings().ratio
        )
        self._history = self._history.with_sample(now, computed)
        target = self._history.offer(now).cpu_milli if self._gently else computed.cpu_milli
        self._quota = adjust(
            self._quota,
            self._quota,
            PERIOD,
            target_milli=target,
            allocatable_milli=milli,
            step=settings.adjust_step if self._gently else ALL,
        ).quota
        (self._root / MOUNT / BEST_EFFORT / "cpu.max").write_text(
            f"{self._quota} {PERIOD}\n", encoding="ascii"
        )
        return Held(self._quota * 1000 // PERIOD, target)


def counting_offline(*, gently: bool) -> Begin:
    """Return a function that begins such a loop."""
    return lambda root, machine, _pods: CountingOffline(root, machine, gently=gently)


def nobody(_root: Path, _machine: Machine, _pods: Sequence[QuotaPod]) -> Holder:
    """Let offline pods use the CPU that their weights give them."""
    return Nobody()

"""What holds offline work back: the arms of the experiment, as they set a node's cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from corewise.agent.objects import QuotaPod
from corewise.config.colocation import OversubscriptionSettings
from corewise.kernel.cgroups.layout import Version
from corewise.quantities import MILLI, Microseconds
from real_load.kubelet_tree import PERIOD, KubeletTree


class Place(StrEnum):
    """The cgroups that a setting is written to."""

    NOWHERE = "nowhere"
    SLICE = "the BestEffort cgroup"
    PODS = "each offline pod"


class ChildPlace(StrEnum):
    """The cgroup of the child that measures a CPU."""

    IDLE = "an idle one of its own"
    AGENT = "the agent's, a pod that requests 20m"


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run offline work, or none.

    ``confined``: offline threads stay on as many CPUs as online pods leave in sum, so that the others
    run no offline work. ``idle``: where ``cpu.idle`` is 1. ``quota``: where there is a quota in each
    ``period``; all of them together are what corewise offers at rest with its default ratio. ``slice_ns``:
    what offline threads ask the kernel for. ``awake``: without offline work, an idle loop of lowest priority
    keeps each CPU from halting. A virtual machine leaves its hypervisor when a CPU halts, and comes back
    late: this is alone without that. ``evaluates``: beside the service, an agent measures a CPU once, as with
    ``--evaluate`` but however busy the node is; its child is in that place. ``scheduler``: what is
    set for the whole machine during the trial, as :func:`scheduler.changed` takes it. ``policy``: the
    scheduling policy of offline threads. ``at_root``: they are in a cgroup at the root of the hierarchy, with
    the weight of kubelet's BestEffort cgroup.
    """

    name: str
    offline: bool = True
    idle: Place = Place.NOWHERE
    quota: Place = Place.NOWHERE
    slice_ns: int = 0
    awake: bool = False
    confined: bool = False
    period: Microseconds = PERIOD
    evaluates: ChildPlace | None = None
    scheduler: tuple[str, ...] = ()
    policy: int = os.SCHED_OTHER
    at_root: bool = False

    def apply(self, tree: KubeletTree, pods: Iterable[QuotaPod], idle_milli: int) -> None:
        """Set the cgroups; ``idle_milli`` is what online pods leave of the node."""
        cgroups = [tree.pod(pod) for pod in pods]
        places = {Place.NOWHERE: [], Place.SLICE: [tree.best_effort], Place.PODS: cgroups}
        for cgroup in places[self.idle]:
            tree.file(cgroup, "cpu.idle").write_text("1")
        offered = OversubscriptionSettings().ratio.of(idle_milli)
        for cgroup in places[self.quota]:
            quota = offered * self.period // MILLI // len(places[self.quota])
            if tree.files.version is Version.V1:
                tree.file(cgroup, "cpu.cfs_period_us").write_text(str(self.period))
                tree.file(cgroup, "cpu.cfs_quota_us").write_text(str(quota))
            else:
                tree.file(cgroup, "cpu.max").write_text(f"{quota} {self.period}")


_SHORT_SLICE, _LONG_SLICE = 100_000, 100_000_000
"""Nanoseconds: the shortest and the longest slice that the kernel grants."""

_LONG_PERIOD = Microseconds(1_000_000)
"""The longest period that the kernel grants."""

ALONE, AGAIN, AWAKE = "alone", "alone again", "alone, awake"
WEIGHTS = Arm("weights")
DEFAULT = Arm("option 1, idle pods, 1 s", quota=Place.SLICE, idle=Place.PODS, period=_LONG_PERIOD)
_SHORTER, _WITHOUT_ZERO = "base_slice_ns=700000", "NO_DELAY_ZERO"
_ROOT, _IDLE = "at the root", "SCHED_IDLE"
_SETTINGS = ("preempt=full", "NO_HRTICK", "NO_RUN_TO_PARITY", _WITHOUT_ZERO, _SHORTER)
CHANGES = (_ROOT, *_SETTINGS, _IDLE)
"""What is changed in weights or in corewise's default, one at a time, by the end of the arm's name."""


def changed(arm: str, change: str) -> str:
    """Return the name of an arm with a change."""
    return f"{arm}, {change}"


def _with_settings(arm: Arm, *settings: str) -> Iterator[Arm]:
    for each in settings:
        yield replace(arm, name=changed(arm.name, each), scheduler=(each,))
    yield replace(arm, name=changed(arm.name, _IDLE), policy=os.SCHED_IDLE)


_ARMS = (
    Arm(ALONE, offline=False),
    Arm(AGAIN, offline=False),
    Arm(AWAKE, offline=False, awake=True),
    Arm("evaluation", offline=False, evaluates=ChildPlace.IDLE),
    Arm("evaluation in its pod", offline=False, evaluates=ChildPlace.AGENT),
    WEIGHTS,
    replace(WEIGHTS, name=changed(WEIGHTS.name, _ROOT), at_root=True),
    *_with_settings(WEIGHTS, *_SETTINGS),
    Arm("idle", idle=Place.SLICE),
    Arm("idle pods", idle=Place.PODS),
    Arm("confined", confined=True),
    Arm("confined, idle pods", confined=True, idle=Place.PODS),
    Arm("short slice", slice_ns=_SHORT_SLICE),
    Arm("long slice", slice_ns=_LONG_SLICE),
    Arm("idle pods, long slice", idle=Place.PODS, slice_ns=_LONG_SLICE),
    Arm("option 1", quota=Place.SLICE),
    Arm("option 1, idle", quota=Place.SLICE, idle=Place.SLICE),
    Arm("option 1, idle pods", quota=Place.SLICE, idle=Place.PODS),
    DEFAULT,
    *_with_settings(DEFAULT, _WITHOUT_ZERO, _SHORTER),
    Arm("option 1, 1 s", quota=Place.SLICE, period=_LONG_PERIOD),
    Arm("option 1, short slice", quota=Place.SLICE, slice_ns=_SHORT_SLICE),
    Arm("option 1, unprotected", quota=Place.SLICE, scheduler=("NO_RUN_TO_PARITY",)),
    Arm("option 1, long slice", quota=Place.SLICE, slice_ns=_LONG_SLICE),
    Arm("option 1, idle pods, long slice", quota=Place.SLICE, idle=Place.PODS, slice_ns=_LONG_SLICE),
    Arm("option 2", quota=Place.PODS),
    Arm("option 2, idle", quota=Place.PODS, idle=Place.SLICE),
    Arm("option 2, idle pods, 1 s", quota=Place.PODS, idle=Place.PODS, period=_LONG_PERIOD),
    Arm("option 2, idle pods, long slice", quota=Place.PODS, idle=Place.PODS, slice_ns=_LONG_SLICE),
)
ARMS = {arm.name: arm for arm in _ARMS}
PUBLISHED = {
    WEIGHTS.name: "weights",
    "option 1": "option 1",
    DEFAULT.name: "corewise",
    "idle pods": "no quota",
}
"""The arms that the docs draw, and their names there."""

TABLED = PUBLISHED | {"option 2": "option 2", "option 2, idle pods, 1 s": "corewise, option 2"}
"""The arms of the docs' tables; a table has those that its trials have."""

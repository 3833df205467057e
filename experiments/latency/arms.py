"""What holds offline work back: the arms of the experiment, as they set a node's cgroups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
    ``--evaluate`` but however busy the node is; its child is in that place. ``features``: scheduler features
    of the whole machine that are set during the trial.
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
    features: tuple[str, ...] = ()

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
_ARMS = (
    Arm(ALONE, offline=False),
    Arm(AGAIN, offline=False),
    Arm(AWAKE, offline=False, awake=True),
    Arm("evaluation", offline=False, evaluates=ChildPlace.IDLE),
    Arm("evaluation in its pod", offline=False, evaluates=ChildPlace.AGENT),
    Arm("weights"),
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
    Arm("option 1, idle pods, 1 s", quota=Place.SLICE, idle=Place.PODS, period=_LONG_PERIOD),
    Arm("option 1, 1 s", quota=Place.SLICE, period=_LONG_PERIOD),
    Arm("option 1, short slice", quota=Place.SLICE, slice_ns=_SHORT_SLICE),
    Arm("option 1, unprotected", quota=Place.SLICE, features=("NO_RUN_TO_PARITY",)),
    Arm("option 1, long slice", quota=Place.SLICE, slice_ns=_LONG_SLICE),
    Arm("option 1, idle pods, long slice", quota=Place.SLICE, idle=Place.PODS, slice_ns=_LONG_SLICE),
    Arm("option 2", quota=Place.PODS),
    Arm("option 2, idle", quota=Place.PODS, idle=Place.SLICE),
    Arm("option 2, idle pods, 1 s", quota=Place.PODS, idle=Place.PODS, period=_LONG_PERIOD),
    Arm("option 2, idle pods, long slice", quota=Place.PODS, idle=Place.PODS, slice_ns=_LONG_SLICE),
)
ARMS = {arm.name: arm for arm in _ARMS}
PUBLISHED = {
    "weights": "weights",
    "option 1": "option 1",
    "option 1, idle pods, 1 s": "corewise",
    "idle pods": "no quota",
}
"""The arms that the docs draw, and their names there."""

TABLED = PUBLISHED | {"option 2": "option 2", "option 2, idle pods, 1 s": "corewise, option 2"}
"""The arms of the docs' tables; a table has those that its trials have."""

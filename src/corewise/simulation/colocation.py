"""What online and offline pods of a node got beside each other over a window of simulated time. Pure.

*Slowdown* of an online container is the part of its throughput that it lost: 1 - work done beside offline
pods / work done alone, at the same load, quotas and weights (:mod:`corewise.simulation.plant`). One that gets
its work done on slower threads loses no throughput, and uses more CPU time for it; *stretch* says how much
more: CPU time of all online containers beside offline pods / alone, each per work done, less 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corewise.simulation.node_simulation import Account


@dataclass(frozen=True, slots=True)
class Colocation:
    """One node or many, in a window. CPUs are averages over it; sums where there are many nodes.

    ``offered`` is None while nothing is offered. ``refused`` is what offline pods wanted and quotas kept
    from them.
    """

    cpus: float
    online: float
    offline: float
    offered: float | None
    refused: float
    slowdowns: Sequence[float]
    work: float
    work_alone: float
    online_alone: float

    @property
    def mean_slowdown(self) -> float | None:
        """Over the online containers that had work; None without any."""
        return math.fsum(self.slowdowns) / len(self.slowdowns) if self.slowdowns else None

    @property
    def worst_slowdown(self) -> float | None:
        return max(self.slowdowns, default=None)

    @property
    def stretch(self) -> float | None:
        """How much more CPU time online work takes beside offline pods; None without online work."""
        if min(self.work, self.work_alone, self.online_alone) <= 0:
            return None
        return max(0.0, (self.online / self.work) / (self.online_alone / self.work_alone) - 1)

    @property
    def utilization(self) -> float:
        return (self.online + self.offline) / self.cpus if self.cpus else 0.0


def of_account(account: Account, offers: Sequence[int]) -> Colocation:
    """Return what an account comes to. ``offers`` are those made in its time, in milli-CPU."""
    seconds = account.seconds or 1.0
    return Colocation(
        cpus=float(account.cpus),
        online=account.online / seconds,
        offline=account.offline / seconds,
        offered=sum(offers) / len(offers) / 1000 if offers else None,
        refused=account.throttled / seconds,
        slowdowns=tuple(account.slowdowns),
        work=math.fsum(account.work.values()) / seconds,
        work_alone=math.fsum(account.work_alone.values()) / seconds,
        online_alone=account.online_alone / seconds,
    )


def total(of: Iterable[Colocation]) -> Colocation | None:
    """Return all of them as one; None if there are none."""
    parts = tuple(of)
    offers = [part.offered for part in parts if part.offered is not None]
    if not parts:
        return None
    return Colocation(
        cpus=math.fsum(part.cpus for part in parts),
        online=math.fsum(part.online for part in parts),
        offline=math.fsum(part.offline for part in parts),
        offered=math.fsum(offers) if offers else None,
        refused=math.fsum(part.refused for part in parts),
        slowdowns=tuple(lost for part in parts for lost in part.slowdowns),
        work=math.fsum(part.work for part in parts),
        work_alone=math.fsum(part.work_alone for part in parts),
        online_alone=math.fsum(part.online_alone for part in parts),
    )

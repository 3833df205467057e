"""The worth of one requested CPU on each kind of machine, without and with corewise (pure).

    off = speed                  a node offers the CPUs that it has, and each does ``speed`` of a baseline CPU
    on  = speed / amplification  a node offers ``amplification`` times as many, so each request gets less

``speed`` is the ratio that the configuration states for the machine, whether normalization is enabled on
the node or not. Both are what a request can rely on when all that the node offers is requested and busy. A
node that is not normalized, or that offers more than its speed gives, shows here: its ``on`` is not 1.00.

A kind is a CPU model; Hyper-Threading and turbo are named where two kinds of one model differ in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from corewise.quantities import Ratio
from corewise.views.machine_kinds import Kind, kind_names, whole_names

_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """A node's machine. ``speed`` is None where the configuration does not know it."""

    model: str
    hyper_threading: bool
    turbo: bool
    speed: Ratio | None
    amplification: Ratio

    @property
    def worth(self) -> Ratio | None:
        """The worth of one CPU requested there, speed / amplification rounded half up; None if unknown."""
        if self.speed is None:
            return None
        divisor = max(1, self.amplification.hundredths)
        return Ratio((2 * self.speed.hundredths * _HUNDRED + divisor) // (2 * divisor))


class WorthRange(msgspec.Struct, frozen=True):
    """The least and the most that one requested CPU is worth, in baseline CPUs (decimal texts)."""

    least: str
    most: str


class KindWorth(msgspec.Struct, frozen=True, rename="camel"):
    """The worth of one requested CPU on one kind of machine; None where its speed is unknown.

    ``kind`` has the whole CPU model, ``short_name`` the name that is shown.
    """

    kind: str
    short_name: str
    nodes: int
    off: WorthRange | None
    on: WorthRange | None


def worth_of(machines: Iterable[MachineSpeed]) -> list[KindWorth]:
    """Return a row for each kind of machine: the slowest first, those of unknown speed last."""
    kinds: dict[Kind, list[MachineSpeed]] = defaultdict(list)
    for each in machines:
        kinds[each.model, each.hyper_threading, each.turbo].append(each)
    whole, short = whole_names(kinds), kind_names(kinds)
    found = [_kind(whole[kind], short[kind], members) for kind, members in kinds.items()]
    return [row for _, row in sorted(found, key=lambda each: (each[0] is None, each[0] or 0, each[1].kind))]


def _kind(name: str, short_name: str, members: list[MachineSpeed]) -> tuple[int | None, KindWorth]:
    speeds = [each.speed.hundredths for each in members if each.speed is not None]
    worth = [each.worth.hundredths for each in members if each.worth is not None]
    if not speeds:
        return None, KindWorth(name, short_name, len(members), None, None)
    return min(speeds), KindWorth(name, short_name, len(members), _range(speeds), _range(worth))


def _range(hundredths: list[int]) -> WorthRange:
    return WorthRange(str(Ratio(min(hundredths))), str(Ratio(max(hundredths))))


def worth_records(machines: Iterable[MachineSpeed]) -> list[dict[str, Any]]:
    """Return the rows for programs."""
    rows: list[dict[str, Any]] = msgspec.to_builtins(worth_of(machines))
    return rows

"""What each setting is to show, by which writes it gets there, and why. Pure.

``nested`` are the files whose sets must be within the parent's: those of CPUs and memory nodes on v1. Where
they are not nested, whoever only gives up CPUs does so before others get them: so that on its way from one
owner to the next a CPU has no two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.paths import ancestors
from corewise.kernel.settings.ledger import Place, SettingHold
from corewise.kernel.settings.order import nested_aims, nested_moves
from corewise.kernel.settings.values import LISTS, cpus_in, list_of, setting_file
from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason

_SETS = frozenset(setting_file(Version.V2, setting) for setting in LISTS)


class Step(NamedTuple):
    """One write; ``aim`` is where it leads, for a nested set perhaps by a second one."""

    place: Place
    before: str
    after: str
    aim: str


def aims_of(
    present: Mapping[Place, str],
    holds: Mapping[Place, SettingHold],
    nested: Mapping[str, Mapping[str, CPUSet]],
) -> tuple[dict[Place, str], dict[Place, CPUSet]]:
    """Return what each file is to show, and of those that cannot, what their parents have.

    ``nested`` has the sets that are present in each nested file, those of the parents among them.
    """
    aims = {place: holds[place].wanted or "" for place in present}
    impossible: dict[Place, CPUSet] = {}
    for file, around in nested.items():
        wanted = sets_in(aims, file)
        firm = {cgroup for cgroup in wanted if holds[Place(cgroup, file)].value is not None}
        possible, beyond = nested_aims(around, wanted, firm)
        aims.update({Place(cgroup, file): list_of(cpus) for cgroup, cpus in possible.items()})
        impossible.update({Place(cgroup, file): limit for cgroup, limit in beyond.items()})
    return {place: aim for place, aim in aims.items() if place not in impossible}, impossible


def steps_of(present: Mapping[Place, str], aims: Mapping[Place, str], nested: Iterable[str]) -> list[Step]:
    """Return the writes, in order."""
    files = sorted(nested)
    differing = (place for place in aims if place.file not in files and present[place] != aims[place])
    plain = sorted(differing, key=lambda place: (_turn(place, present[place], aims[place]), place))
    steps = [Step(place, present[place], aims[place], aims[place]) for place in plain]
    for file in files:
        for cgroup, before, after in nested_moves(sets_in(present, file), sets_in(aims, file)):
            place = Place(cgroup, file)
            steps.append(Step(place, str(before), str(after), aims[place]))
    return steps


def _turn(place: Place, before: str, after: str) -> int:
    """Return 0 for sets that only give up, 1 for those that move, 2 for those that only gain. "" is all."""
    if place.file not in _SETS or not before:
        return 0
    if not after:
        return 2
    old, new = cpus_in(before), cpus_in(after)
    return 0 if new <= old else 2 if old <= new else 1


def sets_in(texts: Mapping[Place, str], file: str) -> dict[str, CPUSet]:
    """Return the sets in files of one name, by cgroup."""
    return {cgroup: cpus_in(text) for (cgroup, each), text in texts.items() if each == file}


def in_line(one: Place, other: Place) -> bool:
    """Whether two places are the same file of cgroups one of which is the other or above it."""
    return one.file == other.file and (
        one == other or one.cgroup in ancestors(other.cgroup) or other.cgroup in ancestors(one.cgroup)
    )


def cause_of(hold: SettingHold, step: Step, *, drifted: bool) -> tuple[Reason, str]:
    """Return why a step is taken."""
    on_the_way = "" if step.after == step.aim else f"; on the way to {step.aim}"
    if hold.value is None:
        if step.aim != hold.base:
            why = f"{step.aim} is what its parent has of {hold.base}"
            return Reason.SETTING_BOUNDED_BY_PARENT, why + on_the_way
        return Reason.SETTING_RESTORED, f"back to {hold.base!r}{on_the_way}"
    why = hold.cause.why if hold.cause else f"wanted since before the restart by {hold.owner}"
    if drifted or hold.cause is None:
        return Reason.SETTING_DRIFT_REPAIRED, f"found {step.before!r}; {why}{on_the_way}"
    return hold.cause.reason, why + on_the_way

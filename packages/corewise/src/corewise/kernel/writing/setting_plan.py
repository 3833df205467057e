"""The target of each setting, the writes that lead there, their order, and the reasons. Pure.

``nested`` are the files whose sets must be within the parent's: those of CPUs and memory nodes on v1. Where
they are not nested, whoever only gives up CPUs does so before others get them: so that on its way from one
owner to the next a CPU has no two.

Nested sets are written so that each is within its parent's at every moment. The kernel refuses a set that is
not within the parent's (EACCES), and one that does not contain the children's (EBUSY). A set may also move,
from CPUs 0-3 to 4-7: it neither grows nor shrinks. So

1. from the top down everything gets what it is to have more. What has children that are not yet within its
   new set keeps what they have of its old one for the moment;
2. from the bottom up everything gives up what it is to have no more.

When its turn comes in 1, a set's parent has all that it and its children had, and all that they are to have;
in 2, the children have nothing but what they are to have.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from corewise.kernel.cgroups.files import ancestors, depth
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import IDLE_FILE
from corewise.kernel.writing.setting_claims import (
    LISTS,
    NO_WEIGHT,
    SettingClaim,
    SettingFile,
    cpus_in,
    list_of,
    setting_file,
)
from corewise.topology import CPUSet
from corewise.vocabulary.reasons import Reason


class Move(NamedTuple):
    """One write of a set to a cgroup."""

    cgroup: str
    before: CPUSet
    after: CPUSet


def nested_aims(
    present: Mapping[str, CPUSet], wanted: Mapping[str, CPUSet], firm: Container[str]
) -> tuple[dict[str, CPUSet], dict[str, CPUSet]]:
    """Return the target of each cgroup and, where a cgroup cannot have it, its parent's set.

    ``present`` are the wanted cgroups and their parents; what is not wanted keeps its present set. One that
    is not ``firm`` gets what of it the parent has, or all that the parent has if that is nothing.
    """
    aims: dict[str, CPUSet] = {}
    beyond: dict[str, CPUSet] = {}
    for cgroup in _downwards(wanted):
        own, parent = wanted[cgroup], next(ancestors(cgroup), "")
        limit = aims.get(parent, present.get(parent, CPUSet()))
        if not limit or own <= limit:
            aims[cgroup] = own
        elif cgroup in firm:
            beyond[cgroup] = limit
        else:
            aims[cgroup] = own & limit or limit
    return aims, beyond


def nested_moves(present: Mapping[str, CPUSet], aims: Mapping[str, CPUSet]) -> list[Move]:
    """Return the writes that bring the sets from what is present to the aims, in order."""
    now = dict(present)
    moves: list[Move] = []

    def write(cgroup: str, after: CPUSet) -> None:
        if now[cgroup] != after:
            moves.append(Move(cgroup, now[cgroup], after))
            now[cgroup] = after

    for cgroup in _downwards(aims):
        if not aims[cgroup] <= now[cgroup]:
            write(cgroup, aims[cgroup] | _below(cgroup, present) & present[cgroup])
    for cgroup in reversed(_downwards(aims)):
        write(cgroup, aims[cgroup])
    return moves


def _below(cgroup: str, present: Mapping[str, CPUSet]) -> CPUSet:
    return CPUSet.of(cpu for each, has in present.items() if cgroup in ancestors(each) for cpu in has)


def _downwards(cgroups: Mapping[str, CPUSet]) -> list[str]:
    return sorted(cgroups, key=lambda cgroup: (depth(cgroup), cgroup))


_SETS = frozenset(setting_file(Version.V2, setting) for setting in LISTS)


class SettingStep(NamedTuple):
    """One write; ``aim`` is where it leads, for a nested set perhaps by a second one."""

    place: SettingFile
    before: str
    after: str
    aim: str


def aims_of(
    present: Mapping[SettingFile, str],
    claims: Mapping[SettingFile, SettingClaim],
    nested: Mapping[str, Mapping[str, CPUSet]],
) -> tuple[dict[SettingFile, str], dict[SettingFile, CPUSet]]:
    """Return the target of each file and, where it is impossible, the parent's set.

    ``nested`` has the sets that are present in each nested file, those of the parents among them.
    """
    aims = {place: claims[place].wanted or "" for place in present}
    impossible: dict[SettingFile, CPUSet] = {}
    for file, around in nested.items():
        wanted = sets_in(aims, file)
        firm = {cgroup for cgroup in wanted if claims[SettingFile(cgroup, file)].value is not None}
        possible, beyond = nested_aims(around, wanted, firm)
        aims.update({SettingFile(cgroup, file): list_of(cpus) for cgroup, cpus in possible.items()})
        impossible.update({SettingFile(cgroup, file): limit for cgroup, limit in beyond.items()})
    return {place: aim for place, aim in aims.items() if place not in impossible}, impossible


def steps_of(
    present: Mapping[SettingFile, str], aims: Mapping[SettingFile, str], nested: Iterable[str]
) -> list[SettingStep]:
    """Return the writes, in order. A cgroup that stays idle has no weight to be written."""
    files = sorted(nested)
    differing = (
        place
        for place in aims
        if place.file not in files
        and present[place] != aims[place]
        and not (present[place] == NO_WEIGHT and _stays_idle(place.cgroup, aims))
    )
    plain = sorted(differing, key=lambda place: (_turn(place, present[place], aims[place]), place))
    steps = [SettingStep(place, present[place], aims[place], aims[place]) for place in plain]
    for file in files:
        for cgroup, before, after in nested_moves(sets_in(present, file), sets_in(aims, file)):
            place = SettingFile(cgroup, file)
            steps.append(SettingStep(place, str(before), str(after), aims[place]))
    return steps


def _stays_idle(cgroup: str, aims: Mapping[SettingFile, str]) -> bool:
    return aims.get(SettingFile(cgroup, IDLE_FILE)) == "1"


def _turn(place: SettingFile, before: str, after: str) -> int:
    """Return 0 for sets that only give up, 1 for those that move, 2 for those that only gain. "" is all.

    A cgroup is idle no more before it gets a weight, and idle after.
    """
    if place.file == IDLE_FILE:
        return 1 if after == "1" else -1
    if place.file not in _SETS or not before:
        return 0
    if not after:
        return 2
    old, new = cpus_in(before), cpus_in(after)
    return 0 if new <= old else 2 if old <= new else 1


def sets_in(texts: Mapping[SettingFile, str], file: str) -> dict[str, CPUSet]:
    """Return the sets in files of one name, by cgroup."""
    return {cgroup: cpus_in(text) for (cgroup, each), text in texts.items() if each == file}


def in_line(one: SettingFile, other: SettingFile) -> bool:
    """Whether two places are the same file of cgroups one of which is the other or above it."""
    return one.file == other.file and (
        one == other or one.cgroup in ancestors(other.cgroup) or other.cgroup in ancestors(one.cgroup)
    )


def cause_of(claim: SettingClaim, step: SettingStep, *, drifted: bool) -> tuple[Reason, str]:
    """Return the reason for a step."""
    on_the_way = "" if step.after == step.aim else f"; on the way to {step.aim}"
    if claim.value is None:
        if step.aim != claim.base:
            why = f"{step.aim} is the part of {claim.base} that its parent has"
            return Reason.SETTING_BOUNDED_BY_PARENT, why + on_the_way
        return Reason.SETTING_RESTORED, f"restored to {claim.base!r}{on_the_way}"
    why = claim.cause.why if claim.cause else f"wanted since before the restart by {claim.owner}"
    if drifted or claim.cause is None:
        return Reason.SETTING_DRIFT_REPAIRED, f"found {step.before!r}; {why}{on_the_way}"
    return claim.cause.reason, why + on_the_way

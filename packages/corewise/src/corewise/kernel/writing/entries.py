"""The entries of the journal, one JSON object a line with its ``kind``, and what they leave held. Pure.

A cgroup's quota, or one of its settings, is *held* from the first write to it until it is released. ``Held``
and ``HeldSetting`` state what comes back and who wants what; the last one counts. ``Wrote`` is entered before
its write, so that no write is without one; ``Failed`` follows if the kernel then refused. Quotas are in
microseconds per period, null is unlimited. A resctrl group (``HeldGroup``) is entered as a cgroup is. A line
with an amount or a time outside its range is damaged.

A write is *certain* once an entry follows that says neither that it failed nor that another process began:
then only its new text is ours, and its old one in the file means that somebody has put it there. After a kill
it is not known whether the last write happened, so both its texts are ours. So are they after a failure: the
same write may have succeeded later, just before a kill.

A damaged line may have been any write, unless it is cut off: what it announces did not happen. After one
nothing is known of what was written to what is held, so no text in those files counts as somebody else's
(which could become a base, and be put back) until the next write to the file. A damaged line may have been
the header of another boot, too: what follows it counts to the boot before, so that at most something is not
put back, and nothing of a former boot ever is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec.structs import replace

Time = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, before the year 10000."""
Micros = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""Microseconds, as many as the kernel can hold."""


class Amount(msgspec.Struct, frozen=True, array_like=True):
    """A quota (null: unlimited) and the period it was computed for."""

    quota: Micros | None
    period: Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]


class Opened(msgspec.Struct, frozen=True, tag_field="kind", tag="opened"):
    """A process began to write. Cgroups do not outlive the boot, so neither does what is held."""

    time: Time
    boot: str


class Held(msgspec.Struct, frozen=True, tag_field="kind", tag="held"):
    """A cgroup whose quota was or will be written.

    ``base`` and ``base_burst`` are what comes back (no burst: none was read yet); ``bounds`` what each owner
    wants. ``found`` marks a cgroup that no call named: it was in the way of a narrower parent. At the
    beginning of a file, ``wrote`` repeats what was last written to each file (old, new), and ``unsure`` that
    a damaged line may have been a write: whatever another file of the cgroup shows may be ours.
    """

    time: Time
    cgroup: str
    base: Amount
    base_burst: Micros | None = None
    bounds: Mapping[str, Amount] = {}
    found: bool = False
    wrote: Mapping[str, tuple[str, str]] = {}
    unsure: bool = False


class HeldSetting(msgspec.Struct, frozen=True, tag_field="kind", tag="held-setting"):
    """A file of a cgroup, holding one setting, that was or will be written.

    ``base`` is what comes back; ``stated`` if its owner said so, else it was found there. ``value`` is what
    ``owner`` wants, for ``reason``; null if there is no owner any more.
    ``wrote`` and ``unsure`` are as in ``Held``.
    """

    time: Time
    cgroup: str
    file: str
    base: str
    value: str | None = None
    owner: str = ""
    stated: bool = False
    wrote: Mapping[str, tuple[str, str]] = {}
    reason: str = ""
    unsure: bool = False


class HeldGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="held-group"):
    """A resctrl group that was or will be made; what comes back is that it is not there.

    ``base`` are the schemata that the kernel gave it when it was new: what it may have at most. Empty until
    they are read. ``wrote`` and ``unsure`` are as in ``Held``.
    """

    time: Time
    cgroup: str
    base: str = ""
    wrote: Mapping[str, tuple[str, str]] = {}
    unsure: bool = False


class Wrote(msgspec.Struct, frozen=True, tag_field="kind", tag="wrote"):
    """One write that is about to happen."""

    time: Time
    cgroup: str
    file: str
    old: str
    new: str
    reason: str
    why: str


class Failed(msgspec.Struct, frozen=True, tag_field="kind", tag="failed"):
    """The kernel did not take the write entered just before."""

    time: Time
    cgroup: str
    file: str
    new: str
    error: str


class Released(msgspec.Struct, frozen=True, tag_field="kind", tag="released"):
    """A quota (no ``file``) or a setting is back at its base, or its cgroup gone."""

    time: Time
    cgroup: str
    file: str = ""


Kept: TypeAlias = Held | HeldSetting | HeldGroup
Entry: TypeAlias = Opened | Kept | Wrote | Failed | Released


@dataclass(frozen=True, slots=True)
class Damaged:
    """A line that is not an entry: its file, its number in it from 1 on, and what is wrong with it.

    ``cut_off``: it is the beginning of a line that was never finished, so what it announces did not happen.
    """

    file: Path
    number: int
    why: str
    cut_off: bool = False


JournalLine: TypeAlias = Entry | Damaged


def still_held(entries: Iterable[JournalLine]) -> Iterator[Kept]:
    """Yield the claims held at the end, one entry each, with ``wrote`` filled in."""
    replay = _Replay()
    for entry in entries:
        if not (isinstance(entry, Damaged) and entry.cut_off):
            replay.take(entry)
    return replay.result()


class _Replay:
    """The state between two entries. Keys are a cgroup and the file of a setting, or "" for the quota."""

    def __init__(self) -> None:
        self._boot: str | None = None
        self._kept: dict[tuple[str, str], Kept] = {}
        self._wrote: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._unsure: set[tuple[str, str]] = set()
        self._last: Wrote | None = None

    def take(self, entry: JournalLine) -> None:
        if self._last is not None and not isinstance(entry, Opened | Failed | Damaged):
            self._write(self._last, certain=True)
        self._last = entry if isinstance(entry, Wrote) else None
        match entry:
            case Opened(boot=boot):
                if boot != self._boot:
                    self._kept.clear()
                    self._wrote.clear()
                    self._unsure.clear()
                self._boot = boot
            case Held() | HeldSetting() | HeldGroup():
                self._hold(entry)
            case Wrote():
                self._write(entry, certain=False)
            case Released():
                self._kept.pop((entry.cgroup, entry.file), None)
                self._wrote.pop((entry.cgroup, entry.file), None)
                self._unsure.discard((entry.cgroup, entry.file))
            case Damaged():
                self._unsure.update(self._kept)
                for wrote in self._wrote.values():
                    wrote.clear()
            case Failed():
                pass

    def result(self) -> Iterator[Kept]:
        for key, kept in self._kept.items():
            yield replace(kept, wrote=self._wrote[key], unsure=key in self._unsure)

    def _hold(self, entry: Kept) -> None:
        key = entry.cgroup, entry.file if isinstance(entry, HeldSetting) else ""
        self._kept[key] = entry
        wrote = self._wrote.setdefault(key, {})
        wrote.update(entry.wrote)
        if entry.unsure:
            self._unsure.add(key)

    def _write(self, entry: Wrote, *, certain: bool) -> None:
        setting, quota = (entry.cgroup, entry.file), (entry.cgroup, "")
        # A file that is not a held setting is one of the quota's: cpu.max, cpu.max.burst …
        wrote = self._wrote.get(setting, self._wrote.get(quota))
        if wrote is not None:
            wrote[entry.file] = (entry.new if certain else entry.old), entry.new

"""What the entries of a journal leave held, with what was last written. Pure.

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

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from corewise.kernel.writing.entries import (
    Damaged,
    Failed,
    Held,
    HeldSetting,
    Kept,
    Line,
    Opened,
    Released,
    Wrote,
)


def still_held(entries: Iterable[Line]) -> Iterator[Kept]:
    """Yield what is held at the end, as one entry each, its ``wrote`` filled in."""
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

    def take(self, entry: Line) -> None:
        """Take one line."""
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
            case Held() | HeldSetting():
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
        """Yield what is held."""
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
        wrote = self._wrote.get(setting, self._wrote.get(quota))
        if wrote is not None:
            wrote[entry.file] = (entry.new if certain else entry.old), entry.new

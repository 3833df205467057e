"""Who sets what of which cgroup, and what comes back: the memory of the writer, rebuilt from its journal.

A setting has one owner at a time. Its base is what the owner stated, or else what was found before the first
write; and if somebody else writes meanwhile, what they wrote, for that is what they want there without us:
kubelet moves the CPU sets of its containers, and changes weights when a pod is resized.

A setting without an owner is on its way back to its base, or was found in the way of a narrower parent (v1).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from corewise.actions import WriteSetting
from corewise.kernel.writing.entries import HeldSetting, Line
from corewise.kernel.writing.pen import Writing
from corewise.kernel.writing.replay import still_held


class Place(NamedTuple):
    """One file of a cgroup."""

    cgroup: str
    file: str

    def __str__(self) -> str:
        return f"{self.cgroup}/{self.file}"


@dataclass(slots=True)
class SettingHold:
    """One setting of a cgroup, its texts in their normal form.

    ``reason``: the code of why ``owner`` wants it.

    ``base`` is None until it is read. ``value`` is what ``owner`` wants; None is the base. ``wrote``,
    ``refused``, ``entered`` and ``changed`` are as in :class:`Holding`, ``unsure`` as in :class:`Held`.
    """

    base: str | None = None
    stated: bool = False
    owner: str = ""
    value: str | None = None
    cause: WriteSetting | None = None
    reason: str = ""
    wrote: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: Writing | None = None
    entered: bool = False
    changed: bool = True
    unsure: bool = False

    def set_by(self, action: WriteSetting, value: str, base: str | None) -> None:
        """Take over what an owner wants; ``value`` and ``base`` are the action's."""
        stated = base is not None
        wanted = (action.owner, value, stated, base if stated else self.base)
        if wanted != (self.owner, self.value, self.stated, self.base):
            self.owner, self.value, self.stated, self.base = wanted
            self.changed = True
        if action.reason != self.reason:
            self.reason, self.changed = action.reason, True
        self.cause = action

    def let_go(self) -> None:
        """Forget what is wanted."""
        self.changed = self.changed or bool(self.owner)
        self.owner, self.value, self.cause, self.reason = "", None, None, ""

    def foreign(self, file: str, text: str) -> bool:
        """Whether somebody else wrote what the file shows."""
        found = () if self.stated or self.base is None or self.unsure else (self.base,)
        ours = self.wrote.get(file, found)
        return bool(ours) and text not in ours

    def read(self, file: str, text: str) -> None:
        """Take note of what the file shows: it may be the base."""
        if not self.stated and (self.base is None or self.foreign(file, text)):
            self.changed = self.changed or self.base != text
            self.base = text

    @property
    def wanted(self) -> str | None:
        """What the file is to show; None while the base is not known."""
        return self.base if self.value is None else self.value

    def at_rest(self, aim: str) -> bool:
        """Whether nobody sets this any more and the base is what it has."""
        return self.value is None and aim == self.base

    def entry(self, place: Place, time: float) -> HeldSetting:
        """Return what the journal is to say."""
        base = "" if self.base is None else self.base
        return HeldSetting(
            time, place.cgroup, place.file, base, self.value, self.owner, self.stated, reason=self.reason
        )


class SettingLedger(dict[Place, SettingHold]):
    """All settings that are held."""

    @classmethod
    def of(cls, entries: Iterable[Line]) -> SettingLedger:
        """Rebuild what a journal holds of settings."""
        held = (each for each in still_held(entries) if isinstance(each, HeldSetting))
        return cls({Place(each.cgroup, each.file): _hold(each) for each in held})

    def let_go(self, owner: str, *, but: Container[Place]) -> None:
        """Let an owner go of everything but these."""
        for place, hold in self.items():
            if hold.owner == owner and place not in but:
                hold.let_go()

    def due(self, written: Container[Place]) -> dict[Place, SettingHold]:
        """Return what is to be entered: what has changed of these, and of what was entered before.

        And what somebody made as it is wanted, but that has another base: it too must find the way back.
        """
        return {
            place: hold
            for place, hold in self.items()
            if hold.changed
            and hold.base is not None
            and (hold.entered or place in written or hold.wanted != hold.base)
        }


def _hold(entry: HeldSetting) -> SettingHold:
    return SettingHold(
        base=entry.base,
        stated=entry.stated,
        reason=entry.reason,
        owner=entry.owner,
        value=entry.value,
        wrote=dict(entry.wrote),
        unsure=entry.unsure,
        entered=True,
        changed=False,
    )

"""What the journal holds: one JSON object a line, told apart by ``kind``.

A cgroup's quota, or one of its settings, is *held* from the first write to it until it is released. ``Held``
and ``HeldSetting`` state what comes back and who wants what; the last one counts. ``Wrote`` is entered before
its write, so that no write is without one; ``Failed`` follows if the kernel then refused. Quotas are in
microseconds per period, null is unlimited. A line with an amount or a time outside its range is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

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
    wants. ``found`` marks a cgroup that nobody named: it was in the way of a narrower parent. At the
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
    ``owner`` wants, for ``reason``; null if nobody wants anything any more.
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


Kept: TypeAlias = Held | HeldSetting
Entry: TypeAlias = Opened | Kept | Wrote | Failed | Released


@dataclass(frozen=True, slots=True)
class Damaged:
    """A line that is no entry: its file, its number in it from 1 on, and what is wrong with it.

    ``cut_off``: it is the beginning of a line that was never finished, so what it announces did not happen.
    """

    file: Path
    number: int
    why: str
    cut_off: bool = False


Line: TypeAlias = Entry | Damaged

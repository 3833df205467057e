"""Which version of cgroups serves the CPU here, and where the controllers are mounted.

v2 serves the CPU if the unified hierarchy has the cpu controller; else v1 does, whether or not a unified
hierarchy is mounted beside it (hybrid). Two sources, in this order, each believed only where the files are:

1. the mounts as the kernel lists them below ``root``: proc/self/mountinfo, and for another root than "/"
   first proc/1/mountinfo, since a container's own list names its own mount points;
2. the shape that every distribution has: sys/fs/cgroup as v2, or with a directory for each v1 controller.

Of several mounts of one hierarchy (bind mounts, containers) the one that shows its root at the shortest path
counts. A mount that leads out of ``root`` through symbolic links is refused.

Source: Documentation/filesystems/proc.rst (mountinfo), cgroups(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from corewise.kernel.errors import LayoutUnknown

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
"""The controllers that corewise reads or writes."""

_SHAPE = "sys/fs/cgroup"
_OCTAL = re.compile(r"\\([0-7]{3})")


class Version(Enum):
    """The version of cgroups that has the cpu controller."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each controller is mounted. ``hybrid``: v1 for the CPU with a unified hierarchy beside it."""

    version: Version
    mounts: Mapping[str, Path]
    hybrid: bool = False

    @property
    def cpu(self) -> Path:
        return self.mounts["cpu"]


@dataclass(frozen=True, slots=True)
class _Mount:
    directory: Path
    controllers: frozenset[str]
    unified: bool


def find_layout(root: Path = Path("/")) -> Layout:
    """Return the cgroup layout of the machine whose files are below ``root``.

    Raises:
        LayoutUnknown: if no mounted hierarchy has the cpu controller.
    """
    for mounts in (*_listed(root), list(_shaped(root))):
        layout = _layout([mount for mount in mounts if _inside(mount.directory, root)])
        if layout is not None:
            return layout
    raise LayoutUnknown(
        str(root / _SHAPE), "no cgroup hierarchy with the cpu controller is mounted", hint="is --root right?"
    )


def _layout(mounts: list[_Mount]) -> Layout | None:
    unified = next((mount for mount in mounts if mount.unified), None)
    if unified is not None and "cpu" in unified.controllers:
        return Layout(Version.V2, dict.fromkeys(CONTROLLERS, unified.directory))
    found = {
        controller: mount.directory
        for controller in CONTROLLERS
        for mount in reversed(mounts)
        if not mount.unified and controller in mount.controllers
    }
    return Layout(Version.V1, found, hybrid=unified is not None) if "cpu" in found else None


def _listed(root: Path) -> Iterator[list[_Mount]]:
    processes = ("self",) if root == Path("/") else ("1", "self")
    for process in processes:
        try:
            text = (root / "proc" / process / "mountinfo").read_text(errors="surrogateescape")
        except OSError:
            continue
        yield list(_parse(text.splitlines(), root))


def _parse(lines: Iterable[str], root: Path) -> Iterator[_Mount]:
    rows = []
    for line in lines:
        place, _, source = line.partition(" - ")
        fields, filesystem = place.split(" "), source.split(" ")
        if len(fields) > 4 and len(filesystem) > 2 and filesystem[0] in {"cgroup", "cgroup2"}:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            rows.append((fields[3] != "/", len(point), point, filesystem))
    for _, _, point, filesystem in sorted(rows, key=lambda row: row[:2]):
        directory = root / point.lstrip("/")
        if filesystem[0] == "cgroup2":
            yield from _unified(directory)
        elif directory.is_dir():
            yield _Mount(directory, frozenset(filesystem[2].split(",")), unified=False)


def _shaped(root: Path) -> Iterator[_Mount]:
    base = root / _SHAPE
    yield from _unified(base)
    yield from _unified(base / "unified")
    try:
        entries = sorted(base.iterdir())
    except OSError:
        return
    for entry in entries:
        controllers = frozenset(entry.name.split(","))
        if controllers & set(CONTROLLERS) and entry.is_dir():
            yield _Mount(entry, controllers, unified=False)


def _unified(directory: Path) -> Iterator[_Mount]:
    try:
        controllers = (directory / "cgroup.controllers").read_text().split()
    except (OSError, ValueError):
        return
    yield _Mount(directory, frozenset(controllers), unified=True)


def _inside(directory: Path, root: Path) -> bool:
    return directory.resolve().is_relative_to(root.resolve())

"""Trials on Debian's kernels, each in a virtual machine whose clock counts instructions.

qemu emulates one CPU, without KVM. With ``-icount`` its clock advances by two nanoseconds with each
instruction, and jumps to the next timer while the CPU has nothing to do. So other work on the host changes
nothing that a guest measures. What a kernel decides, and when, is real; how long work takes is not, as the
CPU has no caches. There is no other CPU for a thread to run on.

``python -m experiments.latency.kernels run FOLDER`` measures and ``table FOLDER`` compares.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec

from experiments.latency import tables
from experiments.latency.arms import ARMS
from experiments.latency.command import append, arms_of, check_folder, read, say
from experiments.latency.guest import COMPARED, TRIAL, Plan
from experiments.latency.programs import build
from experiments.latency.trials import Trial
from node.machines import Machine
from node.packages import sources_of
from node.unpacking import Take, cache, unpacked
from node.virtual_machines import observed, tools

_BACKPORTS = "trixie-backports"
KERNELS = {
    "6.1": "bookworm",
    "6.12": "trixie",
    "6.18": _BACKPORTS,
    "7.2": _BACKPORTS,
    "7.3": _BACKPORTS,
}
"""Versions, and the suite of Debian that has a kernel of each; others are looked for in the backports."""

_PACKAGES = r"linux-(?:image|binary|modules)-({}\.[^-]+(?:-\d+)?)-amd64"
"""Until 6.18 one package has all; later ones have the kernel and its modules in packages of their own."""

_INSTRUCTION_LOG2_NS = 1
_MACHINE = Machine(
    name="latency",
    qemu_model="Skylake-Server",
    model="one emulated CPU that counts instructions",
    vendor="GenuineIntel",
    sockets=1,
    cores=1,
    threads=1,
    numa=((1024, "0"),),
    caches=("0",),
    guest="experiments.latency.guest",
    qemu=("-icount", f"shift={_INSTRUCTION_LOG2_NS},sleep=off"),
    longest=3600,
)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.latency.kernels", description=__doc__)
    commands = parser.add_subparsers(required=True)
    boot = commands.add_parser("run", help="measure; needs apt with Debian's packages and a C compiler")
    boot.set_defaults(act=_run)
    boot.add_argument("folder", type=Path, help="gets a file of trials for each kernel; trials are added")
    boot.add_argument("--kernels", default=",".join(KERNELS), metavar="VERSION,...", help="%(default)s")
    boot.add_argument("--arms", type=arms_of, default=COMPARED, metavar="ARM;...", help="; ".join(ARMS))
    boot.add_argument("--repetitions", type=int, default=6, metavar="N", help="in a boot")
    boot.add_argument("--seconds", type=float, default=2.0, metavar="S", help="of requests, a trial")
    table = commands.add_parser(
        "table", help="print a row for each kernel, and one for each change to a kernel"
    )
    table.set_defaults(act=_table)
    table.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.act(given)


def _run(given: argparse.Namespace) -> None:
    check_folder(given.folder / "file")
    if given.repetitions < 1 or not 0 < given.seconds < math.inf:
        sys.exit("--repetitions is at least 1, and --seconds is a number above 0")
    for version in given.kernels.split(","):
        kernel = kernel_of(version)
        release = kernel.name.removeprefix("vmlinuz-")
        file = given.folder / f"{release}.jsonl"
        had = read(file)[1] if file.exists() else []
        first = max((each.repetition + 1 for each in had if each.arm in given.arms), default=0)
        say(f"{release}; load average {os.getloadavg()[0]:.1f}")
        header, trials = measure(kernel, Plan(first, given.repetitions, given.seconds, given.arms))
        if not had:
            file.write_bytes(bytes(header) + b"\n")
        for trial in trials:
            append(file, trial)


def _table(given: argparse.Namespace) -> None:
    found = by_kernel(given.folder)
    if not found:
        sys.exit(f"{given.folder}: there is no file of trials (*.jsonl)")
    print(tables.kernels(found))
    for release, trials in found.items():
        if table := tables.changes(trials):
            print(f"\n{release}\n\n{table}")


def by_kernel(folder: Path) -> dict[str, list[Trial]]:
    """Return the trials of each kernel of a folder."""
    return {file.stem: read(file)[1] for file in folder.glob("*.jsonl")}


def kernel_of(version: str) -> Path:
    """Return the newest of Debian's kernels of a version such as 6.12.

    Raises:
        Unavailable: if it cannot be had here.
    """
    suite = KERNELS.get(version, _BACKPORTS)
    with sources_of(suite):
        name = f"kernel-{suite}-{version}".replace(".", "-")
        tree = unpacked(name, (_PACKAGES.format(re.escape(version)),), Take.NEWEST)
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")
    (tree / "boot").mkdir(exist_ok=True)
    for kernel in tree.glob("lib/modules/*/vmlinuz"):
        link = tree / "boot" / f"vmlinuz-{kernel.parent.name}"
        if not link.exists():
            link.symlink_to(kernel)
    return next((tree / "boot").glob("vmlinuz-*"))


def measure(kernel: Path, plan: Plan) -> tuple[msgspec.Raw, list[Trial]]:
    """Boot a kernel, and return the header and the trials that its guest wrote.

    Raises:
        Unavailable: if the machine cannot be had here, or no boot came to its end.
    """
    with_ = replace(tools(), kernel=kernel)
    with tempfile.TemporaryDirectory(dir=cache()) as name:
        programs = build(Path(name), "-static")
        given = msgspec.structs.replace(
            plan, service=str(programs.service), antagonist=str(programs.antagonist)
        )
        machine = replace(_MACHINE, tells=(msgspec.json.encode(given).decode(),))
        seen = observed(machine, with_, Path(name), within=float("inf"))
    names = sorted(each for each in seen.names if each.startswith(TRIAL))
    return seen.get("header", msgspec.Raw), [seen.get(each, Trial) for each in names]


if __name__ == "__main__":
    main()

"""Boots a virtual machine by software emulation, runs ``node.guest`` in it, and returns what that saw.

virtme-ng boots Debian's kernel on the files of this machine, read-only over 9p, so the guest has this very
source and Python. It and qemu are told where everything is: nothing is installed, nothing needs root. The
results come back through a directory that the guest may write; the console is kept for when they don't.

A boot is bounded three times: by the guest itself, by ``timeout``, which outlives a killed pytest, and here.
"""

from __future__ import annotations

import os
import platform
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from node.guest.records import Observations
from node.machines import Machine
from node.unpacking import Unavailable, unpacked

PACKAGES = ("qemu-system-x86", "kmod", "busybox-static", "linux-image-amd64")
QEMU = "qemu-system-x86_64"
COMMANDS = {"depmod": "bin/kmod", "modprobe": "bin/kmod", "busybox": "bin/busybox"}
LONGEST = 300
"""Seconds for one machine, from the start to power off. Undisturbed it takes about 90."""

SHOWN = 30
"""Lines of the console in a failure."""

_TESTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Tools:
    """What a boot needs; ``commands`` is a directory with those that were unpacked."""

    virtme_run: Path
    kernel: Path
    commands: Path


def tools() -> Tools:
    """Find or fetch what a boot needs.

    Raises:
        Unavailable: if it cannot be had here.
    """
    virtme_run = Path(sys.executable).parent / "virtme-run"
    if not virtme_run.exists():
        raise Unavailable(
            f"virtme-ng is not installed beside {Path(sys.executable).name}: make test-node does it"
        )
    if platform.machine() != "x86_64":
        raise Unavailable(
            f"the guest shares this machine's files, and these are {platform.machine()}'s, not x86_64's"
        )
    tree = unpacked("machines", PACKAGES)
    kernels = sorted((tree / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise Unavailable(f"no kernel among {', '.join(PACKAGES)} here; is linux-image-amd64 installed?")
    return Tools(virtme_run, kernels[-1], _commands(tree))


def _commands(tree: Path) -> Path:
    """Make commands of what was unpacked: Debian's links are absolute, and qemu's libraries lie beside it."""
    directory = tree / "commands"
    directory.mkdir(exist_ok=True)
    for name, program in COMMANDS.items():
        found = next((path for path in (tree / program, tree / "usr" / program) if path.exists()), None)
        if found and not (directory / name).exists():
            (directory / name).symlink_to(found)
    qemu = tree / "usr/bin" / QEMU
    if qemu.exists():
        libraries = ":".join(str(tree / each / "x86_64-linux-gnu") for each in ("usr/lib", "lib"))
        script = directory / QEMU
        script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{qemu}" "$@"\n')
        script.chmod(0o755)
    return directory


def observed(machine: Machine, with_: Tools, directory: Path) -> Observations:
    """Boot a machine and return what was seen in it."""
    results = directory / "results"
    results.touch()
    console = directory / "console"
    command = ["timeout", "--kill-after=10", str(LONGEST), *_command(machine, with_, directory, results)]
    path = os.pathsep.join([str(with_.commands), *os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"])
    environment = {"PATH": path, "HOME": str(directory), "TMPDIR": str(directory)}
    with (
        console.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        try:
            process.wait(LONGEST + 20)
        finally:
            _end(process)
    seen = Observations(results)
    _check_end(seen, console)
    return seen


def _command(machine: Machine, with_: Tools, directory: Path, results: Path) -> list[str]:
    inside = shlex.join(
        [
            "env",
            f"PYTHONPATH={_TESTS}",
            "PYTHONDONTWRITEBYTECODE=1",
            "TMPDIR=/run",
            sys.executable,
            "-m",
            machine.guest,
            str(results),
        ]
    )
    return [
        str(with_.virtme_run),
        f"--kimg={with_.kernel}",
        "--mods=auto",
        "--disable-kvm",
        "--force-9p",
        "--verbose",
        "--show-boot-console",
        f"--rwdir={directory}={directory}",
        f"--script-sh={inside}",
        *machine.arguments,
    ]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session that a boot is, if it is still there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _check_end(seen: Observations, console: Path) -> None:
    if "end" in seen.names:
        return
    if "failure" in seen.names:
        raise AssertionError(f"in the guest: {seen.get('failure', str)}")
    lines = console.read_text(errors="replace").splitlines()[-SHOWN:]
    raise AssertionError("\n".join(["the guest did not come to its end; its console:", *lines]))

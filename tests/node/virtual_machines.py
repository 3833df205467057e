"""Boots a virtual machine by software emulation, runs ``node.guest`` in it, and returns what that saw.

virtme-ng boots Debian's kernel on the files of this machine, read-only over 9p, so the guest has this very
source and Python. It and qemu are told where everything is: nothing is installed, nothing needs root. The
results come back through a directory that the guest may write; the console is kept for when they don't.

An emulated boot can hang, and qemu can crash: 7.2 does, now and then, while the kernel enumerates PCI devices
and other CPUs run, so the kernel begins with one CPU, and the guest brings up the others. Neither says
anything about what is tested: a guest that is silent for too long is killed and booted again, a few times,
each noted in ``STALLS``. A guest that fails is not tried again: that is an answer.

A boot is bounded three times: by the guest itself, by ``timeout``, which outlives a killed pytest, and here.
"""

from __future__ import annotations

import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from node.guest.records import Observations
from node.machines import Machine
from node.unpacking import Unavailable, unpacked

PACKAGES = ("qemu-system-x86", "kmod", "busybox-static", "linux-image-amd64")
QEMU = "qemu-system-x86_64"
COMMANDS = {"depmod": "bin/kmod", "modprobe": "bin/kmod", "busybox": "bin/busybox"}
ATTEMPTS = 3
BOOT_SILENT_FOR = 120.0
"""Seconds without a word on the console before the guest's first record. Undisturbed it is there after 20."""

WORK_SILENT_FOR = 360.0
"""Seconds without a record. Undisturbed the longest are 15 apart."""

ALL_WITHIN = 1500.0
"""Seconds for all machines; no attempt is begun after them."""

STALLS: list[str] = []
"""What was killed and tried again, with reasons; the summary of the run prints them."""

SHOWN = 30
"""Lines of the console in a failure."""

_ROOT = Path(__file__).resolve().parents[2]
FOLDERS = os.pathsep.join(
    map(str, (_ROOT / "tests/support", _ROOT / "tests", *sorted(_ROOT.glob("packages/*/tests")), _ROOT))
)
"""Where the modules of the tests are found, as PYTHONPATH has it."""
_STARTED = time.monotonic()


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that a boot needs; ``commands`` is a directory with those that were unpacked."""

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
    # A guest cannot keep what it compiles, and compiles slowly.
    ours = (
        *_ROOT.glob("packages/*/src"),
        *_ROOT.glob("packages/*/tests"),
        _ROOT / "tests",
        _ROOT / "experiments",
    )
    subprocess.run([sys.executable, "-m", "compileall", "-q", *map(str, ours)], check=True)
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


class Stalled(Exception):  # noqa: N818 - a boot is tried again for it
    """A boot did not end, and its guest did not say why."""


def observed(machine: Machine, with_: Tools, directory: Path, within: float = ALL_WITHIN) -> Observations:
    """Boot a machine and return what was seen in it; attempts begin ``within`` seconds of the first use.

    Raises:
        Unavailable: if no boot came to its end, or to a failure of its guest.
        AssertionError: if the guest failed.
    """
    for attempt in range(1, ATTEMPTS + 1):
        if time.monotonic() - _STARTED > within:
            break
        folder = directory / str(attempt)
        folder.mkdir()
        try:
            return _boot(machine, with_, folder)
        except Stalled as reason:
            STALLS.append(f"{machine.name}, attempt {attempt} of {ATTEMPTS}: {reason}")
    raise Unavailable(f"no boot of {machine.name} came to its end: see the summary")


def _boot(machine: Machine, with_: Tools, directory: Path) -> Observations:
    results, console = directory / "results", directory / "console"
    results.touch()
    command = [
        "timeout",
        "--kill-after=10",
        str(machine.longest),
        *_command(machine, with_, directory, results),
    ]
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
            _watch(process, results, console)
        finally:
            _end(process)
    seen = Observations(results)
    _check_end(seen, process.returncode, console)
    return seen


def _watch(process: subprocess.Popen[bytes], results: Path, console: Path) -> None:
    """Wait for the end of a boot, as long as its guest has something to tell."""
    told, since = (0, 0), time.monotonic()
    while process.poll() is None:
        sizes = results.stat().st_size, console.stat().st_size
        if sizes != told:
            told, since = sizes, time.monotonic()
        allowed = WORK_SILENT_FOR if told[0] else BOOT_SILENT_FOR
        if time.monotonic() - since > allowed:
            raise Stalled(f"silent for {allowed:.0f} s; its console:\n{_console_end(console)}")
        time.sleep(0.2)


def _command(machine: Machine, with_: Tools, directory: Path, results: Path) -> list[str]:
    booted = shlex.join(["echo", '{"name":"booted","value":true}'])
    observing = shlex.join(
        [
            "env",
            f"PYTHONPATH={FOLDERS}",
            "PYTHONDONTWRITEBYTECODE=1",
            "TMPDIR=/run",
            sys.executable,
            "-m",
            machine.guest,
            str(results),
            *(["agent"] if machine.runs_agent else []),
            *machine.tells,
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
        "--kopt=maxcpus=1",
        f"--rwdir={directory}={directory}",
        f"--script-sh={booted} >>{shlex.quote(str(results))}; {observing}",
        *machine.arguments,
    ]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session that a boot is, if it is still there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _check_end(seen: Observations, code: int, console: Path) -> None:
    if "end" in seen.names:
        return
    if "failure" in seen.names:
        raise AssertionError(f"in the guest: {seen.get('failure', str)}")
    shown = _console_end(console)
    if "Traceback (most recent call last)" in shown:
        raise AssertionError(f"the guest did not begin:\n{shown}")
    raise Stalled(f"ended with {code} before the guest did; its console:\n{shown}")


def _console_end(console: Path) -> str:
    return "\n".join(console.read_text(errors="replace").splitlines()[-SHOWN:])

"""Debian packages, unpacked beside the system and never installed. Nothing here needs root.

apt works on lists and a cache of its own, with the sources and keys of this system. What is unpacked stays in
a cache directory, COREWISE_TEST_CACHE or the user's, and serves as long as system and packages are the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LONGEST = 600
"""Seconds that apt may take for one step; 90 MB are to be fetched."""

PAUSES = (5.0, 15.0, 45.0)
"""Seconds before each further attempt: a mirror that does not answer, or is being updated."""


class Unavailable(Exception):  # noqa: N818 - a test is skipped for it, with its text as the reason
    """The packages cannot be had here."""


def cache() -> Path:
    """Return where unpacked packages are kept."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corewise-tests"
    return Path(os.environ.get("COREWISE_TEST_CACHE") or users)


def unpacked(name: str, packages: Sequence[str], *, with_dependencies: bool = True) -> Path:
    """Return a directory with the files of packages, and of those they need that this system does not have.

    Raises:
        Unavailable: if apt cannot get them here.
    """
    tree = cache() / f"{name}-{_fingerprint(packages)}"
    with _locked(cache()):
        if not tree.exists():
            partial = tree.with_suffix(".partial")
            _fill_in_the_end(partial, packages, with_dependencies=with_dependencies)
            partial.rename(tree)
    return tree


def _fill_in_the_end(directory: Path, packages: Sequence[str], *, with_dependencies: bool) -> None:
    """Fill a directory, restarting each time that apt fails."""
    if not shutil.which("apt-get"):
        raise Unavailable("there is no apt-get here to fetch Debian's packages with")
    for pause in (*PAUSES, None):
        shutil.rmtree(directory, ignore_errors=True)
        try:
            _fill(directory, packages, with_dependencies=with_dependencies)
        except (Unavailable, subprocess.SubprocessError) as error:
            if pause is None:
                raise Unavailable(str(error)) from error
            time.sleep(pause)
        else:
            return


def _fingerprint(packages: Sequence[str]) -> str:
    system = platform.freedesktop_os_release()
    parts = (system.get("ID", ""), system.get("VERSION_ID", ""), platform.machine(), *packages)
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8]


def _fill(directory: Path, packages: Sequence[str], *, with_dependencies: bool) -> None:
    work = directory / "apt"
    for needed in ("lists/partial", "archives/partial", "debs"):
        (work / needed).mkdir(parents=True)
    _apt(work, "update")
    wanted = _missing(work, packages) if with_dependencies else list(packages)
    _apt(work, "download", *wanted)
    for deb in sorted((work / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "--extract", deb, directory], check=True, timeout=LONGEST)
    shutil.rmtree(work)


def _missing(work: Path, packages: Sequence[str]) -> list[str]:
    """Return the packages that apt would install."""
    plan = _apt(work, "install", "--simulate", "--no-install-recommends", *packages)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _apt(work: Path, *arguments: str) -> str:
    options = {
        "Acquire::Retries": "3",
        "Acquire::http::Timeout": "60",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work,
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": pwd.getpwuid(os.getuid()).pw_name,
        "Acquire::Languages": "none",
    }
    given = [word for option, value in options.items() for word in ("-o", f"{option}={value}")]
    command = ["apt-get", "--quiet", *given, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST, check=False, cwd=work / "debs"
    )
    if done.returncode:
        complaint = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Unavailable(f"apt-get {' '.join(arguments[:3])} failed: {' '.join(complaint)}")
    return done.stdout


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

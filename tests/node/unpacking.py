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
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
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


class Take(Enum):
    """Which packages are unpacked, for those that are named."""

    THEM = auto()
    WITH_MISSING = auto()
    """And those they need that this system does not have."""
    NEWEST = auto()
    """Those whose names match a pattern, of the newest version; a version is the group of a pattern."""


def unpacked(name: str, packages: Sequence[str], take: Take = Take.WITH_MISSING) -> Path:
    """Return a directory with the files of packages.

    Raises:
        Unavailable: if apt cannot get them here.
    """
    tree = cache() / f"{name}-{_fingerprint(packages)}"
    with _locked(cache()):
        if not tree.exists():
            partial = tree.with_suffix(".partial")
            _fill_in_the_end(partial, packages, take)
            partial.rename(tree)
    return tree


def _fill_in_the_end(directory: Path, packages: Sequence[str], take: Take) -> None:
    """Fill a directory, restarting each time that apt fails."""
    if not shutil.which("apt-get"):
        raise Unavailable("there is no apt-get here to fetch Debian's packages with")
    for pause in (*PAUSES, None):
        shutil.rmtree(directory, ignore_errors=True)
        try:
            _fill(directory, packages, take)
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


def _fill(directory: Path, packages: Sequence[str], take: Take) -> None:
    work = directory / "apt"
    for needed in ("lists/partial", "archives/partial", "debs"):
        (work / needed).mkdir(parents=True)
    _apt(work, "update")
    _apt(work, "download", *_chosen(work, packages, take))
    for deb in sorted((work / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "--extract", deb, directory], check=True, timeout=LONGEST)
    shutil.rmtree(work)


def _chosen(work: Path, packages: Sequence[str], take: Take) -> Sequence[str]:
    if take is Take.WITH_MISSING:
        return _missing(work, packages)
    return packages if take is Take.THEM else _newest(work, packages)


def _missing(work: Path, packages: Sequence[str]) -> list[str]:
    """Return the packages that apt would install."""
    plan = _apt(work, "install", "--simulate", "--no-install-recommends", *packages)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _newest(work: Path, patterns: Sequence[str]) -> list[str]:
    """Return the packages whose names match, of the newest version that any of them has."""
    listed = _apt(work, "search", "--names-only", ".", program="apt-cache").splitlines()
    names = [line.split()[0] for line in listed]
    found = [each for pattern in patterns for name in names if (each := re.fullmatch(pattern, name))]
    if not found:
        raise Unavailable(f"no package here matches {', '.join(patterns)}")
    newest = max((each[1] for each in found), key=numbers)
    return [each[0] for each in found if each[1] == newest]


def numbers(version: str) -> list[int]:
    """Return the numbers of a version, by which versions are ordered."""
    return [int(each) for each in re.findall(r"\d+", version)]


def _apt(work: Path, *arguments: str, program: str = "apt-get") -> str:
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
    command = [program, "--quiet", *given, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST, check=False, cwd=work / "debs"
    )
    if done.returncode:
        complaint = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Unavailable(f"{program} {' '.join(arguments[:3])} failed: {' '.join(complaint)}")
    return done.stdout


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

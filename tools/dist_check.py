"""Uses the files of ``dist/`` as a stranger does who has only them: ``make dist-check``.

The wheels of the dependencies are downloaded once, into ``.wheels/``. What follows reaches no network and
imports nothing of the clone. For each Python of this machine and each distribution, an empty environment gets
the distribution and does its main job. Each sdist builds the wheel beside it. The chart is installed,
upgraded and uninstalled on a local cluster (tools/install_demo.py). Each step is a row of a table, with its
time.
"""

from __future__ import annotations

import argparse
import calendar
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corewise import __version__
from tools.chart import chart_version
from tools.dist import CHECKSUMS, DISTRIBUTIONS

ROOT = Path(__file__).parents[1]
LOCKED = tuple(ROOT / "requirements" / f"{name}.txt" for name in ("build", "openstack", "cel"))
"""The locked requirements of all distributions, and what builds them."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""All that are used where a machine has them. The packages' classifiers name those that were used once."""
HELM = "helm-python-sdk"
_PATIENCE = 300.0
_NO_NETWORK = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Runs a command where there is no network but its own loopback."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command that shows that a distribution works, and what it prints then."""

    requirement: str
    command: str
    shows: str


_ANSWER = """\
import json, ssl, urllib.request
from kubedouble.testing import run_server
with run_server() as server:
    answer = urllib.request.urlopen(f"{server.url}/version", context=ssl._create_unverified_context())
    print(json.load(answer)["gitVersion"])
"""
_HOST = "corewise topology -o json > host && corewise compute inventory --topology host --config nova.conf"
JOBS = (
    Job("corewise", "corewise topology && ! corewise up 2>&1", "corewise up is part of corewise-lab"),
    Job("kubedouble", f"python -c '{_ANSWER}'", "+kubedouble"),
    Job("corewise-openstack", f"printf '[compute]\\ncpu_dedicated_set = 0\\n' > nova.conf; {_HOST}", "PCPU"),
    Job("corewise-lab", "corewise up --for 5s", "one CPU is worth"),
    Job("corewise-lab[openstack]", "corewise up --scenario openstack --for 1s", "Where the guests went"),
)


class StepError(Exception):
    """A step failed; the text is what it printed."""


class Steps:
    """Runs steps, and prints a row for each."""

    def __init__(self) -> None:
        self.failed = 0

    def step(self, what: str, do: Callable[[], str]) -> bool:
        """Run a step, which returns its result; return whether it succeeded."""
        began = time.monotonic()
        try:
            result = do()
        except StepError as error:
            self.failed += 1
            result = f"FAILED\n{error}"
        print(f"{what:<52} {time.monotonic() - began:5.1f} s   {result}", flush=True)
        return not result.startswith("FAILED")


def main() -> int:
    """Run all steps; 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.dist_check", description=__doc__)
    parser.add_argument("--directory", type=Path, default=ROOT / "dist", help="default: %(default)s")
    dist: Path = parser.parse_args().directory
    prefix = no_network()
    print(f"{platform.platform()}, {os.cpu_count()} CPUs; {'no' if prefix else 'THERE IS A'} network\n")
    steps, began, found = Steps(), time.monotonic(), list[str]()
    if not steps.step("checksums", partial(check_sums, dist)):
        return 1
    with tempfile.TemporaryDirectory(prefix="dist-check-") as folder:
        for minor in PYTHONS:
            python = find_python(minor)
            if python is None:
                print(f"{f'Python {minor}':<52}     -     not on this machine: not checked")
                continue
            found.append(minor)
            stranger = Stranger(dist, Path(folder, minor), python, minor, prefix)
            if steps.step(f"Python {minor}: wheels of the dependencies", stranger.collect):
                for job in JOBS:
                    _check(steps, stranger, job)
                if minor == f"{sys.version_info.major}.{sys.version_info.minor}":
                    for name in DISTRIBUTIONS:
                        steps.step(f"{name}: sdist to wheel", partial(stranger.rebuild, name))
                    steps.step("chart on a local cluster", stranger.use_chart)
    if not found:
        print("\nnothing was checked: install one of these Pythons, with its module ensurepip")
        return 1
    print(f"\n{steps.failed} steps failed, {time.monotonic() - began:.0f} s in all")
    return 1 if steps.failed else 0


def _check(steps: Steps, stranger: Stranger, job: Job) -> None:
    row = f"Python {stranger.minor}: {job.requirement}"
    if steps.step(f"{row}: install", partial(stranger.install, job.requirement)):
        steps.step(f"{row}: run", partial(stranger.do, job))
    stranger.discard(job.requirement)


def check_sums(dist: Path) -> str:
    """Compare all files with their checksums."""
    sums = dist / CHECKSUMS
    if not sums.exists():
        raise StepError(f"{dist} has no {CHECKSUMS}: run make dist")
    lines = [line.split("  ") for line in sums.read_text().splitlines()]
    for checksum, name in lines:
        if not (dist / name).exists() or hashlib.sha256((dist / name).read_bytes()).hexdigest() != checksum:
            raise StepError(f"{dist / name} is not the file of {CHECKSUMS}: run make dist again")
    return f"{len(lines)} files"


def no_network() -> tuple[str, ...]:
    """Return the prefix of a command that is to have no network; empty where that is not possible."""
    try:
        subprocess.run((*_NO_NETWORK, "true"), check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return _NO_NETWORK


def find_python(minor: str) -> Path | None:
    """Return an interpreter of a version: on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for python in (f"python{minor}", *sorted(map(str, pyenv.glob(f"{minor}.*/bin/python")), reverse=True)):
        try:
            told = subprocess.run(
                (python, "-c", "import ensurepip, sys; print(sys.executable)"),
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return Path(told.stdout.strip())
    return None


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody with the files of a release, a Python, the wheels of the dependencies, and no network."""

    dist: Path
    folder: Path
    python: Path
    minor: str
    prefix: tuple[str, ...]

    @property
    def wheels(self) -> Path:
        """Where the wheels of the dependencies are."""
        return ROOT / ".wheels" / self.minor

    def collect(self) -> str:
        """Download the wheels of the locked requirements, unless they are here. Only this needs a network."""
        self.folder.mkdir(parents=True)
        run((str(self.python), "-m", "venv", str(self.folder / "pip")), self.folder)
        helm = self.folder / "helm.txt"
        helm.write_text(locked(HELM))
        state = hashlib.sha256(b"".join(path.read_bytes() for path in (*LOCKED, helm))).hexdigest()
        stamp = self.wheels / "requirements.sha256"
        if stamp.exists() and stamp.read_text() == state:
            return f"{len(list(self.wheels.glob('*.whl')))} files, from before"
        given = [option for path in (*LOCKED, helm) for option in ("--requirement", str(path))]
        pip = (str(self.folder / "pip/bin/python"), "-m", "pip", "wheel", "--quiet", "--no-deps")
        run((*pip, "--require-hashes", "--wheel-dir", str(self.wheels), *given), self.folder)
        stamp.write_text(state)
        return f"{len(list(self.wheels.glob('*.whl')))} files"

    def install(self, *requirements: str) -> str:
        """Install a distribution into a new environment, which has no pip either."""
        place = self._place(requirements[0])
        self._run("pip", str(self.python), "-m", "venv", "--without-pip", str(place))
        ours, *others = requirements
        name, bracket, extra = ours.partition("[")
        wanted = (f"{name}{bracket}{extra}=={__version__}", *others)
        self._pip("--python", str(place / "bin/python"), "install", "--quiet", "--no-compile", *wanted)
        return f"{len(list(place.glob('lib/python*/site-packages/*.dist-info')))} packages"

    def do(self, job: Job) -> str:
        """Do the main job of a distribution."""
        place = self._place(job.requirement)
        printed = self._run(place.name, "sh", "-c", job.command)
        if job.shows not in printed:
            raise StepError(f"{job.command} did not print {job.shows}:\n{printed}")
        if (place / "bin/corewise").exists():
            version = self._run(place.name, "corewise", "--version").strip()
            if not version.startswith(f"corewise, version {__version__}"):
                raise StepError(version)
        return f"printed: {job.shows}"

    def discard(self, requirement: str) -> None:
        """Remove an environment: all of them together take gigabytes."""
        shutil.rmtree(self._place(requirement), ignore_errors=True)

    def rebuild(self, name: str) -> str:
        """Build the wheel of an sdist, and compare it with the one beside it."""
        sdist = self.dist / f"{name.replace('-', '_')}-{__version__}.tar.gz"
        target = self.folder / "rebuilt" / name
        wheels = sorted(self.dist.glob(f"{name.replace('-', '_')}-{__version__}-*.whl"))
        epoch = {"SOURCE_DATE_EPOCH": str(time_of(wheels[0]))}
        self._pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(sdist), environment=epoch)
        (built,) = target.iterdir()
        if built.read_bytes() != (self.dist / built.name).read_bytes():
            raise StepError(f"{built.name} differs from the one in {self.dist}")
        return "the same bytes"

    def use_chart(self) -> str:
        """Install, upgrade and uninstall the chart, with the programs of the wheels."""
        self.install("corewise-lab", HELM)
        demo, archive = (
            ROOT / "tools/install_demo.py",
            self.dist / f"corewise-{chart_version(__version__)}.tgz",
        )
        printed = self._run("corewise_lab", "python", "-I", str(demo), str(archive.resolve()))
        return "\n" + textwrap.indent(printed.strip(), "  ")

    def _place(self, requirement: str) -> Path:
        return self.folder / re.sub(r"\W", "_", requirement)

    def _pip(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        links = f"{self.dist.resolve()} {self.wheels}"
        settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links, "PIP_CONFIG_FILE": os.devnull}
        self._run("pip", "python", "-m", "pip", *arguments, **settings, **(environment or {}))

    def _run(self, place: str, *command: str, **environment: str) -> str:
        """Run a command without a network, with the programs of an environment; return what it prints."""
        home = self.folder / f"home-{place}"
        home.mkdir(exist_ok=True)
        known = {"PATH": f"{self.folder / place / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
        known |= {"LANG": "C.UTF-8", "TERM": "dumb", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        return run((*self.prefix, *command), home, known | environment)


def run(command: tuple[str, ...], directory: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it prints."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise StepError(f"{' '.join(command)} took more than {_PATIENCE:.0f} s") from error
    if done.returncode:
        raise StepError(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout}")
    return done.stdout


def locked(name: str) -> str:
    """Return the lines that lock a development dependency, with its hashes."""
    found = re.search(rf"(?m)^{name}==.*(?:\n    --hash.*)+", (ROOT / "requirements/dev.txt").read_text())
    assert found is not None, name  # noqa: S101 - pyproject.toml lists it
    return found[0].removesuffix("\\") + "\n"


def time_of(wheel: Path) -> int:
    """Return SOURCE_DATE_EPOCH of the build of a wheel: the time of all of its files."""
    with zipfile.ZipFile(wheel) as files:
        return calendar.timegm(files.infolist()[0].date_time)


if __name__ == "__main__":
    sys.exit(main())

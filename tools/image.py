"""Builds the container image: ``make image``; ``python -m tools.image --help``.

The context holds all that the Containerfile uses: the sdist, which has its version, the wheels of the locked
requirements as this machine's pip finds them, and the bill of materials. So the build needs no network, and
the same commit, base and SOURCE_DATE_EPOCH give the same digest (``--twice`` tries it). The image has the
Python version that runs this.

``--base debian`` builds the base from Debian's packages (mmdebstrap), where no registry can be reached.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corewise import __version__
from corewise.cli.commit import commit

ROOT = Path(__file__).parents[1]
COMMAND_LINE = ROOT / "packages/corewise/src/corewise/cli"
TOOLS = ("buildah", "podman", "docker")
NO_TOOL = "neither buildah nor podman is installed, and no docker daemon runs: apt-get install buildah"
MEGABYTE = 1_000_000

_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_DEBIAN = {"3.11": "bookworm", "3.13": "trixie"}
"""The release of Debian that has a version of Python."""
_BASE_PACKAGES = ("python3", "libstdc++6", "ca-certificates", "netbase", "tzdata")
_BUILDER_PACKAGES = (*_BASE_PACKAGES, "python3-venv", "gcc", "libc6-dev", "dash", "coreutils", "findutils")
_HOOKS = "/usr/share/mmdebstrap/hooks/merged-usr"
_OURS = "opt/corewise"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The bytes of an image's files, uncompressed."""

    base: int
    ours: int


class Tool:
    """buildah, podman or docker; the first two with storage of their own, which is gone at the end."""

    def __init__(self, program: str, scratch: Path) -> None:
        self.program = program
        self._scratch = scratch
        self._policy: list[str] = []
        self._options: list[str] = []
        if program != "docker":
            storage = (scratch / "storage", scratch / "run")
            self._options = [
                "--root",
                str(storage[0]),
                "--runroot",
                str(storage[1]),
                "--storage-driver",
                "vfs",
            ]
            policy = scratch / "policy.json"  # what distributions ship, and a package alone may lack
            policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
            self._policy = ["--signature-policy", str(policy)]

    def build(
        self, tag: str, context: Path, containerfile: Path, epoch: str, arguments: Mapping[str, str]
    ) -> None:
        """Build an image."""
        given = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        given.append(f"--build-arg=SOURCE_DATE_EPOCH={epoch}")
        if self.program != "docker":
            given += ["--no-cache", "--isolation", "chroot", "--timestamp", epoch, *self._policy]
        run(
            self.program,
            *self._options,
            "build",
            *given,
            "--tag",
            tag,
            "--file",
            str(containerfile),
            str(context),
        )

    def save(self, tag: str, archive: Path) -> None:
        """Write an image as an OCI archive."""
        if self.program == "docker":
            run("docker", "save", "--output", str(archive), tag)
        else:
            run(self.program, *self._options, "push", "--quiet", *self._policy, tag, f"oci-archive:{archive}")

    def close(self) -> None:
        """Remove the storage: its files may belong to other users, as in the image."""
        if self.program != "docker":
            prefix = [self.program, "unshare"] if os.geteuid() else []
            run(*prefix, "rm", "-rf", str(self._scratch / "storage"), str(self._scratch / "run"))


def run(*command: str, cwd: Path | None = None, **environment: str) -> None:
    """Run a command; its output goes to stderr, since stdout is for the result."""
    subprocess.run(command, check=True, stdout=sys.stderr, env=os.environ | environment, cwd=cwd)


def hatch(distribution: str, target: str, directory: Path | str, **environment: str) -> None:
    """Build an sdist or a wheel of a distribution in ``packages``."""
    build = (sys.executable, "-m", "hatchling", "build", "--target", target, "--directory")
    run(*build, str(Path(directory).resolve()), cwd=ROOT / "packages" / distribution, **environment)


def make_context(context: Path, requirements: Path) -> None:
    """Put together what the Containerfile copies."""
    hatch("corewise", "sdist", context)
    shutil.copy(requirements, context / "requirements.txt")
    shutil.copy(ROOT / "requirements/build.txt", context)
    download(context / "wheels", requirements, ROOT / "requirements/build.txt")
    write_bill_of_materials(context / "sbom.cdx.json", requirements, context / "wheels")


def download(wheels: Path, *requirements: Path) -> None:
    """Download the wheels of locked requirements, as this machine's pip finds them."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps")
    given = [option for each in requirements for option in ("--requirement", str(each))]
    run(*pip, "--require-hashes", "--only-binary=:all:", "--dest", str(wheels), *given)


def write_bill_of_materials(file: Path, requirements: Path, wheels: Path) -> None:
    """Write the CycloneDX bill of materials: the installed requirements, and corewise itself."""
    with tempfile.TemporaryDirectory() as directory:
        python = f"{directory}/venv/bin/python"
        run(sys.executable, "-m", "venv", "--without-pip", f"{directory}/venv")
        hatch("corewise", "wheel", directory, HATCH_BUILD_NO_HOOKS="true")
        install = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "--quiet",
            "install",
            "--no-index",
            "--no-deps",
        )
        offline = (*install, "--no-compile", "--find-links", str(wheels))
        run(*offline, "--require-hashes", "--requirement", str(requirements))
        run(*offline, "--find-links", directory, "corewise")
        bill = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", str(file))
        run(*bill, python)


def make_base(tool: Tool, name: str, packages: tuple[str, ...], scratch: Path, epoch: str) -> str:
    """Make an image of Debian's packages, unpacked and not configured: they need no configuration."""
    if not shutil.which("mmdebstrap"):
        sys.exit("image: a base of Debian's packages needs mmdebstrap: apt-get install mmdebstrap")
    if _PYTHON not in _DEBIAN:
        versions = " or ".join(_DEBIAN)
        sys.exit(
            f"image: no Debian has Python {_PYTHON}: make {versions} the Python of .venv, or name a BASE"
        )
    directory = scratch / name
    directory.mkdir(parents=True)
    variant = ("--variant=extract", f"--include={','.join(packages)}", f"--hook-dir={_HOOKS}")
    run(
        "mmdebstrap",
        "--quiet",
        *variant,
        _DEBIAN[_PYTHON],
        str(directory / "files.tar"),
        SOURCE_DATE_EPOCH=epoch,
    )
    (directory / "Containerfile").write_text("FROM scratch\nADD files.tar /\n")
    tag = f"localhost/corewise-{name}"
    tool.build(tag, directory, directory / "Containerfile", epoch, {})
    (directory / "files.tar").unlink()
    return tag


def finish_archive(made: Path, archive: Path, name: str, epoch: int) -> tuple[str, Sizes]:
    """Write the archive again with the image's name and without times; return its digest and sizes.

    ``ctr images import`` takes the name from one annotation, other tools the tag from another.
    """
    with tarfile.open(made) as source:
        blobs = {m.name: source.extractfile(m).read() for m in source if m.isfile()}  # type: ignore[union-attr]
    index: dict[str, Any] = json.loads(blobs["index.json"])
    (manifest,) = index["manifests"]
    manifest["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    blobs["index.json"] = json.dumps(index).encode()
    with tarfile.open(archive, "w") as target:
        for path in sorted(blobs):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime = len(blobs[path]), epoch
            target.addfile(entry, io.BytesIO(blobs[path]))
    layers = json.loads(blobs[_blob(manifest)])["layers"]
    return manifest["digest"], _sizes([blobs[_blob(layer)] for layer in layers])


def _blob(descriptor: Mapping[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _sizes(layers: list[bytes]) -> Sizes:
    ours = base = 0
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            for member in files:
                if member.name.startswith(_OURS):
                    ours += member.size
                else:
                    base += member.size
    return Sizes(base, ours)


def options(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return the options of a build."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    requirements = ROOT / "requirements/run.txt"
    parser.add_argument("--base", default="", help="an image, or debian; default: python's slim one")
    parser.add_argument(
        "--builder", default="", help="an image with pip and a C compiler; debian's for debian"
    )
    parser.add_argument("--requirements", type=Path, default=requirements, help="default: %(default)s")
    parser.add_argument("--tool", choices=TOOLS, help="default: the first that is installed")
    parser.add_argument("--directory", type=Path, default=ROOT / "dist", help="default: %(default)s")
    parser.add_argument("--twice", action="store_true", help="build it twice, and fail if the files differ")
    return parser


def source_date_epoch() -> str:
    """Return the time that all files get, and have every program that is run know it: the commit's."""
    log = ("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    if "SOURCE_DATE_EPOCH" not in os.environ:
        os.environ["SOURCE_DATE_EPOCH"] = subprocess.check_output(log, text=True).strip()
    return os.environ["SOURCE_DATE_EPOCH"]


def usable_tool() -> str:
    """Return the first tool that is installed, docker only if its daemon runs; empty if there is none."""
    return next((tool for tool in TOOLS if shutil.which(tool) and (tool != "docker" or _daemon_runs())), "")


def _daemon_runs() -> bool:
    asked = subprocess.run(("docker", "version"), capture_output=True, check=False)
    return asked.returncode == 0


def make(given: argparse.Namespace, epoch: str) -> None:
    """Build the image with the tool that was asked for, or with the one that is there."""
    program = given.tool or usable_tool()
    if not program:
        sys.exit(f"image: {NO_TOOL}")
    given.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="corewise-image-") as directory:
        tool = Tool(program, Path(directory))
        try:
            build(tool, given, Path(directory), epoch)
        finally:
            tool.close()


def build(tool: Tool, given: argparse.Namespace, scratch: Path, epoch: str) -> None:
    """Build the image with a tool, save it beside its bill of materials, and print what was made."""
    builds: set[tuple[str, ...]] = set()
    for attempt in ("first", "second")[: 1 + given.twice]:
        folder = scratch / attempt
        base, builder = given.base, given.builder
        if base == "debian":
            base = make_base(tool, "base", _BASE_PACKAGES, folder, epoch)
            builder = builder or make_base(tool, "builder", _BUILDER_PACKAGES, folder, epoch)
        arguments = {
            "BASE": base or f"python:{_PYTHON}-slim-bookworm",
            "BUILDER": builder or f"python:{_PYTHON}-bookworm",
        }
        context, made = folder / "context", folder / "image.tar"
        context.mkdir(parents=True)
        make_context(context, given.requirements)
        name = f"localhost/corewise:{__version__}"
        labels = {"VERSION": __version__, "COMMIT": commit(COMMAND_LINE)}
        tool.build(name, context, ROOT / "Containerfile", epoch, arguments | labels)
        tool.save(name, made)
        stem = given.directory / f"corewise-{__version__}"
        archive = Path(f"{stem}-image-{platform.machine()}.tar")
        if archive.exists() and builds:
            archive.rename(archive.with_suffix(".first.tar"))
        digest, sizes = finish_archive(made, archive, name, int(epoch))
        bill = shutil.copy(context / "sbom.cdx.json", f"{stem}-sbom.cdx.json")
        builds.add(
            (digest, *(hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in (archive, bill)))
        )
        shutil.rmtree(folder)
    if len(builds) > 1:
        sys.exit(
            "image: two builds differ. If the commit or a file changed meanwhile, build in a clean clone; "
            f"else compare: diffoscope {archive.with_suffix('.first.tar')} {archive}"
        )
    archive.with_suffix(".first.tar").unlink(missing_ok=True)
    if given.twice:
        print("built    twice: the same digest, archive and bill of materials")
    print(f"image    {name}")
    print(f"digest   {digest}")
    print(f"archive  {archive}")
    ours, beneath = round(sizes.ours / MEGABYTE), round(sizes.base / MEGABYTE)
    print(f"size     {ours} MB of corewise over a base of {beneath} MB, uncompressed")


if __name__ == "__main__":
    make(options("python -m tools.image", __doc__).parse_args(), source_date_epoch())

"""A container runtime with NRI, from Debian's packages: containerd of trixie beside this release's runc.

trixie, the first Debian whose containerd has NRI, is asked of the mirror that this system is set up with, by
the same key; that is told to apt in a file of its own, so that the system's configuration stays as it is.
COREWISE_TEST_CONTAINERD_SUITE names another suite, so that the plugin can be tried with a later containerd.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from node.unpacking import Take, Unavailable, unpacked

_APT = Path("/etc/apt")


@dataclass(frozen=True, slots=True)
class RuntimeFiles:
    """The programs that a runtime consists of."""

    containerd: Path
    ctr: Path
    runc: Path
    busybox: Path


def runtime_files() -> RuntimeFiles:
    """Find or fetch containerd, runc and busybox.

    Raises:
        Unavailable: if they cannot be had here.
    """
    base = unpacked("containers", ("runc", "busybox-static"), Take.THEM)
    suite = os.environ.get("COREWISE_TEST_CONTAINERD_SUITE") or "trixie"
    with sources_of(suite):
        runtime = unpacked(f"containerd-{suite}", ("containerd",), Take.THEM)
    busybox = next((path for path in (base / "bin/busybox", base / "usr/bin/busybox") if path.exists()), None)
    if busybox is None:
        raise Unavailable(f"there is no busybox in {base}")
    programs = runtime / "usr/bin"
    return RuntimeFiles(programs / "containerd", programs / "ctr", base / "usr/sbin/runc", busybox)


@contextmanager
def sources_of(suite: str) -> Iterator[None]:
    """Have apt see nothing but the suite, as long as this lasts.

    Raises:
        Unavailable: if this system has no mirror of Debian.
    """
    before = os.environ.get("APT_CONFIG")
    with tempfile.TemporaryDirectory() as directory:
        sources = Path(directory, "suite.sources")
        sources.write_text(_stanza(suite))
        config = Path(directory, "apt.conf")
        config.write_text(f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "/dev/null";\n')
        os.environ["APT_CONFIG"] = str(config)
        try:
            yield
        finally:
            del os.environ["APT_CONFIG"]
            if before is not None:
                os.environ["APT_CONFIG"] = before


def _stanza(suite: str) -> str:
    """Return an apt source like the one this system has for its own release."""
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    for source in _sources():
        if release and release in source.get("Suites", "").split() and source.get("Types") == "deb":
            fields = source | {"Suites": suite, "Components": "main"}
            return "".join(f"{key}: {value}\n" for key, value in fields.items())
    raise Unavailable(
        f"no apt source for {release or 'this system'}, so no mirror to get {suite}'s containerd from"
    )


def _sources() -> Iterator[dict[str, str]]:
    for file in sorted(_APT.glob("sources.list.d/*.sources")):
        for stanza in file.read_text().split("\n\n"):
            lines = (line.partition(":") for line in stanza.splitlines() if line[:1] not in {"#", " ", ""})
            yield {key: value.strip() for key, _, value in lines}
    for file in [_APT / "sources.list", *sorted(_APT.glob("sources.list.d/*.list"))]:
        for line in file.read_text().splitlines() if file.exists() else ():
            yield from _one_line(line)


def _one_line(line: str) -> Iterator[dict[str, str]]:
    kind, _, rest = line.partition(" ")
    if kind != "deb":
        return
    options, _, rest = rest.partition("]") if rest.startswith("[") else ("", "", rest)
    uri, suite = rest.split()[:2]
    keyring = next((word[10:] for word in options[1:].split() if word.startswith("signed-by=")), "")
    yield {"Types": kind, "URIs": uri, "Suites": suite} | ({"Signed-By": keyring} if keyring else {})

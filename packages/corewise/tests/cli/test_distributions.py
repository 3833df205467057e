"""corewise by itself: commands of other distributions name the one to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corewise import __version__
from corewise.cli.errors import ExitCode

ALONE = """
import importlib.metadata, sys
for absent in ("corewise_lab", "corewise_openstack", "kubedouble"):
    sys.modules[absent] = None
found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **_: found(group="none")
"""
MAIN = "from corewise.cli import main; main(sys.argv[1:])"


def run(*arguments: str, program: str = MAIN) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", ALONE + program, *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("command", "package", "wheels", "target"),
    [
        ("compute", "corewise-openstack", ["corewise_openstack"], "openstack"),
        ("up", "corewise-lab", ["kubedouble", "corewise_lab"], "up"),
        ("plan", "corewise-lab", ["kubedouble", "corewise_lab"], "up"),
    ],
)
def test_absent_commands_name_their_distribution(
    command: str, package: str, wheels: list[str], target: str
) -> None:
    told = run(command)
    assert told.returncode == ExitCode.BAD_INPUT
    assert f"corewise {command} is part of {package}, which is not installed" in told.stderr
    files = " ".join(f"./{name}-{__version__}-py3-none-any.whl" for name in wheels)
    assert f"pip install {files}, or in a clone: make {target}" in told.stderr


def test_absent_commands_are_not_listed() -> None:
    listed = run("--help").stdout
    assert "\n  nodes " in listed
    assert not any(f"\n  {command} " in listed for command in ("compute", "up", "plan"))


def test_misspelt_commands_are_still_named() -> None:
    assert "Did you mean 'nodes'" in run("node").stderr


def test_libvirt_option_names_its_distribution() -> None:
    told = run("topology", "--libvirt", "test:///default")
    assert told.returncode == ExitCode.BAD_INPUT
    assert "--libvirt is part of corewise-openstack, which is not installed" in told.stderr


def test_web_page_needs_no_other_distribution() -> None:
    told = run("web", "--help")
    assert (told.returncode, "--compute-hosts" in told.stdout) == (0, False)

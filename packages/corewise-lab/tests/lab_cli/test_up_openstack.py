"""A cloud that ``corewise up --scenario openstack --state`` keeps: used later, and continued."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corewise.cli.errors import ExitCode

DAYS = 3 * 24 * 3600.0
UP = ("up", "--scenario", "openstack", "--state", "cloud", "--for", "0.1s")
HOSTS = ("--hosts", "cloud/hosts")
PLACEMENT = ("--placement-db", "cloud/placement.sqlite")
FLAVOR = {"name": "f", "vcpus": 4, "ram": 512, "extra_specs": {"hw:cpu_policy": "dedicated"}}
GUEST = "00000000-0000-0000-0000-000000000008"


def corewise(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a process of its own: each has at most one embedded Placement."""
    return subprocess.run(
        [sys.executable, "-m", "corewise", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def schedule(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "flavor.json").write_text(json.dumps(FLAVOR))
    return corewise(
        folder, "compute", "schedule", "--flavor", "flavor.json", *HOSTS, "--guest", "g", "-o", "json"
    )


def age(folder: Path) -> None:
    """Make everything in a folder look as if days had gone by."""
    then = time.time() - DAYS
    for path in folder.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("placement", reason="corewise-openstack is not installed: make openstack")
    folder = tmp_path_factory.mktemp("built")
    assert (result := corewise(folder, *UP)).returncode == 0, result.stderr
    age(folder)
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """Return a folder with a cloud that was built days ago."""
    shutil.copytree(built, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path


def test_a_kept_cloud_takes_guests_days_later(folder: Path) -> None:
    full = schedule(folder)
    assert full.returncode == ExitCode.REFUSED
    assert json.loads(full.stdout)["message"] == "none of 4 hosts can take the guest: 4 eliminated by PCPU"
    assert corewise(folder, "compute", "delete", GUEST, *HOSTS, *PLACEMENT).returncode == 0
    placed = schedule(folder)
    assert (placed.returncode, json.loads(placed.stdout)["host"]) == (0, "combined"), placed.stderr
    shown = corewise(folder, "compute", "status", *HOSTS, "--host", "combined", "-o", "json")
    assert "g" in {each["guest"] for each in json.loads(shown.stdout)["hosts"][0]["guests"]}


def test_host_whose_agent_fell_silent_is_refused(folder: Path) -> None:
    assert corewise(folder, "compute", "delete", GUEST, *HOSTS, *PLACEMENT).returncode == 0
    reported = folder / "cloud/hosts/combined/reported"
    reported.touch()
    assert schedule(folder).returncode == 0
    assert corewise(folder, "compute", "delete", "g", *HOSTS).returncode == 0
    age(folder)
    silent = schedule(folder)
    assert silent.returncode == ExitCode.REFUSED
    assert "1 by an agent that is silent (HostSilent)" in json.loads(silent.stdout)["message"]


def test_up_continues_a_kept_cloud_as_it_is(folder: Path) -> None:
    assert corewise(folder, "compute", "delete", GUEST, *HOSTS, *PLACEMENT).returncode == 0
    again = corewise(folder, *UP, "-o", "json")
    assert again.returncode == 0, again.stderr
    assert f"for a new one, first: rm -r {folder / 'cloud'}" in again.stderr
    told = json.loads(again.stdout)
    assert {each["host"]: each["PCPU"] and each["PCPU"]["total"] for each in told["hosts"]} == {
        "combined": 16, "no-smt": 16, "old": 24, "shared": None
    }  # fmt: skip
    assert (told["guests"], told["upgrade"], told["owner"]) == ([], None, None)
    guests = {each["guest"] for host in told["cpus"] for each in host["guests"]}
    assert len(guests) == 8
    assert GUEST not in guests
    assert "Host old is upgraded" not in corewise(folder, *UP).stdout
    assert schedule(folder).returncode == 0


@pytest.mark.parametrize("own", ["hosts", "machines"])
def test_up_refuses_files_that_it_did_not_complete(own: str, tmp_path: Path) -> None:
    (tmp_path / "cloud" / own / "own").mkdir(parents=True)
    refused = corewise(tmp_path, *UP)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert f"cloud/{own} is not of a cloud that an earlier run completed" in refused.stderr
    assert {each.name for each in (tmp_path / "cloud").rglob("*")} == {own, "own", "lock"}

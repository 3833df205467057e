"""A boot that stalls is tried again, a few times; what a guest says is believed at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from node import virtual_machines
from node.machines import MACHINES, Machine
from node.unpacking import Unavailable
from node.virtual_machines import ATTEMPTS, Tools, observed

TOOLS = Tools(Path("/nonexistent"), Path("/nonexistent"), Path("/nonexistent"))
SILENT = 3.0


@pytest.fixture
def stalls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the attempts that were repeated, kept out of the run's own summary."""
    said: list[str] = []
    monkeypatch.setattr(virtual_machines, "STALLS", said)
    return said


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_machines, "BOOT_SILENT_FOR", SILENT)
    monkeypatch.setattr(virtual_machines, "WORK_SILENT_FOR", SILENT)


def boots(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
    """Have each boot run the next of these scripts, the last one again and again; $1 is its results."""
    left = list(scripts)

    def command(_machine: Machine, _tools: Tools, _directory: Path, results: Path) -> list[str]:
        script = left.pop(0) if len(left) > 1 else left[0]
        return ["/bin/sh", "-c", script, "sh", str(results)]

    monkeypatch.setattr(virtual_machines, "_command", command)


def told(name: str, value: str = "true") -> str:
    record = f'{{"name":"{name}","value":{value}}}'
    return f"echo {shlex.quote(record)} >>$1; "


HANG = "echo some BIOS; exec sleep 1000"
GOOD = told("booted") + told("end")


def test_boot_that_finishes_is_believed(
    monkeypatch: pytest.MonkeyPatch, stalls: list[str], tmp_path: Path
) -> None:
    boots(monkeypatch, GOOD)
    assert observed(MACHINES[0], TOOLS, tmp_path).names == {"booted", "end"}
    assert stalls == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("first", [HANG, told("booted") + HANG, "kill -SEGV $$"])
def test_hung_or_crashed_boot_is_retried_showing_console(
    monkeypatch: pytest.MonkeyPatch, stalls: list[str], tmp_path: Path, first: str
) -> None:
    boots(monkeypatch, first, GOOD)
    assert "end" in observed(MACHINES[0], TOOLS, tmp_path).names
    assert f"{MACHINES[0].name}, attempt 1 of {ATTEMPTS}" in stalls[0]
    assert ("some BIOS" in stalls[0]) is ("BIOS" in first)


def test_machine_that_never_finishes_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, stalls: list[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(virtual_machines, "BOOT_SILENT_FOR", 0.5)
    boots(monkeypatch, HANG)
    with pytest.raises(Unavailable):
        observed(MACHINES[0], TOOLS, tmp_path)
    assert len(stalls) == ATTEMPTS


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (told("booted") + told("failure", '"it broke"'), "in the guest: it broke"),
        ("echo 'Traceback (most recent call last):'; echo ImportError", "ImportError"),
    ],
)
def test_a_guest_that_fails_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, stalls: list[str], tmp_path: Path, script: str, said: str
) -> None:
    boots(monkeypatch, script)
    with pytest.raises(AssertionError, match=said):
        observed(MACHINES[0], TOOLS, tmp_path)
    assert stalls == []

"""Trials on several kernels: what is changed in a scheduler is put back, and their table compares kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from experiments.latency import kernels, scheduler, tables
from experiments.latency.arms import ALONE, DEFAULT, changed
from experiments.latency.figures import above, counts_of
from experiments.latency.guest import Plan
from experiments.latency.trials import Case, Header, Trial

CASE = Case(size=0.1, load=0.1, antagonist="spin")
UNPROTECTED = "option 1, unprotected"


@pytest.fixture
def debugfs(tmp_path: Path) -> Path:
    """Return a directory of plain files: what is written last is what a file has."""
    (tmp_path / "features").write_text("PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY\n")
    (tmp_path / "base_slice_ns").write_text("750000\n")
    (tmp_path / "preempt").write_text("full (lazy)\n")
    return tmp_path


def test_features_are_put_back_after_a_trial(debugfs: Path) -> None:
    with scheduler.changed(("NO_RUN_TO_PARITY",), debugfs):
        assert (debugfs / "features").read_text() == "NO_RUN_TO_PARITY"
    assert (debugfs / "features").read_text() == "RUN_TO_PARITY"


def test_a_feature_that_was_off_stays_off(debugfs: Path) -> None:
    with scheduler.changed(("NO_NEXT_BUDDY",), debugfs):
        pass
    assert (debugfs / "features").read_text() == "NO_NEXT_BUDDY"


@pytest.mark.parametrize(
    ("setting", "file", "during", "after"),
    [
        ("base_slice_ns=700000", "base_slice_ns", "700000", "750000"),
        ("preempt=full", "preempt", "full", "lazy"),
    ],
)
def test_files_are_put_back_after_a_trial(
    debugfs: Path, setting: str, file: str, during: str, after: str
) -> None:
    with scheduler.changed((setting,), debugfs):
        assert (debugfs / file).read_text() == during
    assert (debugfs / file).read_text() == after


def test_settings_are_put_back_when_one_is_refused(debugfs: Path) -> None:
    settings = ("base_slice_ns=700000", "cgroup_mode=smp")
    with pytest.raises(SystemExit, match="cgroup_mode cannot be read"), scheduler.changed(settings, debugfs):
        pass
    assert (debugfs / "base_slice_ns").read_text() == "750000"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), True),
        (("NO_RUN_TO_PARITY",), True),
        (("NEXT_BUDDY",), True),
        (("NO_PICK_BUDDY",), False),
        (("base_slice_ns=700000", "NEXT_BUDDY"), True),
        (("cgroup_mode=smp",), False),
    ],
)
def test_kernel_has_settings_whatever_their_value(
    debugfs: Path, settings: tuple[str, ...], expected: bool
) -> None:
    assert scheduler.has(settings, debugfs) is expected


def test_missing_debugfs_is_reported_with_the_command(tmp_path: Path) -> None:
    with (
        pytest.raises(SystemExit, match="as root: mount -t debugfs debugfs"),
        scheduler.changed(("NO_RUN_TO_PARITY",), tmp_path / "sched"),
    ):
        pass


def test_slices_that_a_kernel_has_are_multiplied(debugfs: Path) -> None:
    assert scheduler.multiply_slices(4, debugfs) == {"base_slice_ns": 3_000_000}
    assert (debugfs / "base_slice_ns").read_text() == "3000000"


def trial(arm: str, milliseconds: list[float], repetition: int = 0) -> Trial:
    counts = counts_of(np.array(milliseconds))
    return Trial(CASE, arm, repetition, 2.0, 1, counts, 0.11, 0.01, 0.5, 10, 0.0, 0.0, 0.0)


def test_requests_above_a_limit_are_counted() -> None:
    counts = np.zeros(2000, np.int64)
    counts[list(counts_of(np.array([0.1, 0.9, 1.1, 5.0])))] = 1
    assert above(counts, 1.0) == 0.5


def test_kernels_are_compared_in_order_of_version() -> None:
    quick, slow = [0.1] * 100, [0.1] * 95 + [2.0] * 5
    found = {
        "6.12.1": [trial(ALONE, quick), trial("option 1", slow), trial(UNPROTECTED, quick)],
        "6.1.9": [trial(ALONE, quick), *(trial("option 1", each) for each in (quick, quick, slow))],
    }
    assert tables.kernels(found).splitlines() == [
        f"| Linux | alone | option 1 | {UNPROTECTED} |",
        "|---|---|---|---|",
        "| 6.1.9 | 0.10 ms (0.10-0.10); 0.0% | 0.10 ms (0.10-2.00); 0.0% | - |",
        "| 6.12.1 | 0.10 ms (0.10-0.10); 0.0% | 2.00 ms (2.00-2.00); 5.0% | 0.10 ms (0.10-0.10); 0.0% |",
    ]


def test_changes_are_compared_with_nothing_changed() -> None:
    quick, slow = [0.1] * 100, [0.1] * 95 + [2.0] * 5
    without = changed(DEFAULT.name, "NO_DELAY_ZERO")
    trials = [trial(ALONE, quick), trial(DEFAULT.name, slow), trial(without, quick)]
    assert tables.changes(trials).splitlines() == [
        "| changed | weights | corewise |",
        "|---|---|---|",
        "| nothing | - | 2.00 ms (2.00-2.00); 5.0%; 56% |",
        "| NO_DELAY_ZERO | - | 0.10 ms (0.10-0.10); 0.0%; 56% |",
    ]
    assert tables.kernels({"7.3.4": trials}).splitlines()[0] == "| Linux | alone | corewise |"


def test_kernels_without_changes_have_no_table() -> None:
    assert tables.changes([trial(ALONE, [0.1]), trial(DEFAULT.name, [0.1])]) == ""


def test_a_later_boot_adds_further_repetitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(_kernel: Path, plan: Plan) -> tuple[msgspec.Raw, list[Trial]]:
        header = Header("a machine", {"compute": 1.0}, {0.1: 0.1})
        return msgspec.Raw(msgspec.json.encode(header)), [
            trial(arm, [0.1], plan.first + each) for each in range(plan.repetitions) for arm in plan.arms[:1]
        ]

    monkeypatch.setattr(kernels, "kernel_of", lambda version: Path(f"boot/vmlinuz-{version}.0-amd64"))
    monkeypatch.setattr(kernels, "measure", measure)
    arguments = ["run", str(tmp_path), "--kernels", "6.1", "--repetitions", "2"]
    monkeypatch.setattr(sys, "argv", ["kernels", *arguments])
    kernels.main()
    kernels.main()
    monkeypatch.setattr(sys, "argv", ["kernels", *arguments, "--arms", "weights"])
    kernels.main()
    assert [*kernels.by_kernel(tmp_path)] == ["6.1.0-amd64"]
    found = kernels.by_kernel(tmp_path)["6.1.0-amd64"]
    assert [(each.arm, each.repetition) for each in found] == [
        *((ALONE, each) for each in range(4)),
        *(("weights", each) for each in range(2)),
    ]

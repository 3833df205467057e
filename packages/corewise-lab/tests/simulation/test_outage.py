"""``corewise up --scenario outage``: what goes on without any corewise program, and what comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from corewise.quantities import RawMilli
from corewise.vocabulary.names import AMPLIFICATION_RATIO, OWNED_MILLI_CPU
from corewise_lab.outage import offered_milli
from kubedouble import expressions

WITHIN = 300.0

pytestmark = pytest.mark.skipif(
    not expressions.is_available(), reason="the policies need the package cel-expr-python"
)


def outage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "corewise", "up", "--scenario", "outage", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = outage("--nodes", "3", "--for", "40s", "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_every_program_is_killed(report: dict[str, Any]) -> None:
    assert report["killed"] == ["manager", "scheduler-a", "scheduler-b", "agents"]


def test_nodes_stay_amplified_through_kubelet_writes(report: dict[str, Any]) -> None:
    assert [each["notAmplified"] for each in report["phases"]] == [0, 0, 0]
    assert all(each["kubeletWrites"] > 1 for each in report["phases"]), "without writes nothing is shown"
    assert [each["refused"] for each in report["phases"]] == [0, 0, 0]


def test_plain_pods_are_placed_without_corewise(report: dict[str, Any]) -> None:
    away = report["phases"][1]["plain"]
    assert away["bound"] > away["created"] / 2, "the others are on their way"


def test_pods_wait_for_owned_cpus_and_share_none(report: dict[str, Any]) -> None:
    before, away, after = (each["owner"] for each in report["phases"])
    assert before["bound"], "none was placed before the outage"
    early = before["bound"] + away["bound"]
    assert early <= before["created"], "one that came in the outage was bound in it"
    assert early + after["bound"] >= before["created"] + away["created"]
    assert [each["cpusTwice"] for each in report["phases"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("owned", "offered"),
    [(None, 12000), ("2000", 11000), ("333", 11833), ("-1", 12000), ("two", 12000), ("9" * 5000, 12000)],
)
def test_unreadable_owned_cpus_count_as_none(owned: str | None, offered: int) -> None:
    annotations = {AMPLIFICATION_RATIO: '{"cpu":1.50}'}
    annotations |= {} if owned is None else {OWNED_MILLI_CPU: owned}
    assert offered_milli(RawMilli(8000), annotations) == offered


def test_incompatible_options_are_refused(tmp_path: Any) -> None:
    done = outage("--state", str(tmp_path))
    assert done.returncode == 2
    assert "--nodes, --for and -o only" in done.stderr

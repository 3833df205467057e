"""Experiments refuse arguments that they cannot use in one line, before they measure anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("experiments.upgrade --from no-such-revision", "no-such-revision cannot be unpacked"),
        ("experiments.owned_burst --kubeconfig /no/kubeconfig", "/no/kubeconfig: No such file"),
        ("experiments.accuracy run /no/folder/runs.jsonl", "there is no folder /no/folder"),
        ("tools.record_objects", "usage:"),
        ("experiments.fault_soak --minutes -1", "--minutes is a number above 0, not -1"),
        ("experiments.fault_soak --minutes nan", "--minutes is a number above 0, not nan"),
        ("experiments.latency.kernels table /no/folder", "there is no file of trials"),
        ("experiments.latency.kernels run /tmp --repetitions -1", "--repetitions is at least 1"),
        ("experiments.interference_cluster simulate /no/folder/x.jsonl", "there is no such folder"),
        ("experiments.interference_cluster simulate x.jsonl --seeds 5-1", "'5-1' has no seed"),
        ("experiments.interference_cluster simulate x.jsonl --lag=-1", "'-1' is not a number of seconds"),
        ("experiments.fault_soak --nodes 9", "--nodes is 1 to 8, not 9"),
        ("experiments.profile_recovery --dry-run", "unrecognized arguments: --dry-run"),
    ],
)
def test_a_wrong_argument_is_named_in_a_sentence(command: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr

"""The command line says what it said: every case of cases.py, compared with expected/."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from golden.cases import CASES, Case
from golden.cluster import running_cluster
from golden.transcripts import ENVIRONMENT, INPUTS, compare, transcript


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_line_says_what_it_said(tmp_path: Path, case: Case) -> None:
    if case.files:
        shutil.copytree(INPUTS / case.files, tmp_path, dirs_exist_ok=True)
    lines = [line.strip() for line in case.lines.strip().splitlines()]
    with ExitStack() as stack:
        environment = ENVIRONMENT
        if case.cluster:
            objects = INPUTS / "clusters" / f"{case.cluster}.json"
            cluster = stack.enter_context(running_cluster(tmp_path, objects))
            environment = {**ENVIRONMENT, "KUBECONFIG": str(cluster.kubeconfig)}
        seen = transcript(lines, tmp_path, case.masks, environment)
    compare(case.name, seen)

"""What people see on a terminal of 80, 120 and 200 columns: every case that prints tables or explains.

A line of stdout is never longer than the terminal is wide, so that nothing wraps.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from golden.cases import CASES, Case
from golden.cluster import running_cluster
from golden.transcripts import ENVIRONMENT, INPUTS, compare, longest_line, transcript

WIDTHS = (80, 120, 200)
NO_SCREENS = {"calls", "calibrate-model", "config-check", "config-starter", "scheduler-config"}
"""Cases of calls that are refused, of files, and of problems one on a line, as compilers print them."""
SCREENS = [case for case in CASES if case.name not in NO_SCREENS]


@pytest.mark.parametrize("case", SCREENS, ids=lambda case: case.name)
def test_what_is_printed_fits_a_terminal_and_is_what_it_was(tmp_path: Path, case: Case) -> None:
    lines = [line.strip() for line in case.lines.strip().splitlines()]
    parts = []
    with ExitStack() as stack:
        environment = ENVIRONMENT
        if case.cluster:
            objects = INPUTS / "clusters" / f"{case.cluster}.json"
            cluster = stack.enter_context(running_cluster(tmp_path, objects))
            environment = {**ENVIRONMENT, "KUBECONFIG": str(cluster.kubeconfig)}
        for width in WIDTHS:
            directory = tmp_path / str(width)
            directory.mkdir()
            if case.files:
                shutil.copytree(INPUTS / case.files, directory, dirs_exist_ok=True)
            seen = transcript(lines, directory, case.masks, environment, columns=width)
            longest = longest_line(seen)
            assert len(longest) <= width, longest
            parts.append(f"=== a terminal of {width} columns\n\n{seen}")
    compare(f"screens/{case.name}", "\n".join(parts))


def test_the_cloud_of_openstack_fits_a_real_terminal(tmp_path: Path) -> None:
    arguments = ["up", "--scenario", "openstack", "--for", "0.1s"]
    parts = []
    for width in WIDTHS:
        shown = on_terminal(arguments, width)
        assert max(map(len, shown.splitlines())) <= width
        parts.append(f"=== a terminal of {width} columns\n\n$ corewise {' '.join(arguments)}\n{shown}")
    compare("screens/up-openstack", "\n".join(parts))


def on_terminal(arguments: list[str], width: int) -> str:
    """Return what a process prints on the pseudo-terminal that is its stdout."""
    ours, its = pty.openpty()
    environment = {**os.environ, **ENVIRONMENT, "COLUMNS": str(width), "TERM": "dumb"}
    command = [sys.executable, "-m", "corewise", *arguments]
    shown = b""
    with subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(its)
        with suppress(OSError):  # Linux says EIO when the process has closed its end
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")

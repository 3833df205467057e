"""What people see on a terminal: every case that prints tables or explains.

A line of stdout is never longer than the terminal is wide, so that nothing wraps. The screens of 80 columns
are kept word for word; wider ones show the same columns and lines in the same order, and maybe more.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import click
import pytest

from corewise.cli import corewise
from corewise.cli.output import Form
from corewise_lab.cli.report import Teller, print_report
from corewise_lab.control_plane import Folder
from corewise_lab.run import RunOptions, run
from corewise_lab.scenario import load_scenario
from golden.cases import CASES, Case
from golden.cluster import running_cluster
from golden.transcripts import (
    ENVIRONMENT,
    EXPECTED,
    INPUTS,
    WIDTHS,
    compare_screens,
    longest_line,
    masked,
    transcript,
)

NO_SCREENS = {"calls", "config-starter", "config-suggest", "scheduler-config"}
"""Cases of calls that are refused, and of files, which are no wider and no narrower than they are."""
SCREENS = [case for case in CASES if case.name not in NO_SCREENS]


@pytest.mark.parametrize("case", SCREENS, ids=lambda case: case.name)
def test_printed_output_fits_a_terminal_and_is_unchanged(tmp_path: Path, case: Case) -> None:
    lines = [line.strip() for line in case.lines.strip().splitlines()]
    seen = {}
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
            seen[width] = transcript(lines, directory, case.masks, environment, columns=width)
            longest = longest_line(seen[width])
            assert len(longest) <= width, longest
    compare_screens(case.name, seen)


def test_the_cloud_of_openstack_fits_a_real_terminal(tmp_path: Path) -> None:
    pytest.importorskip("libvirt", reason="one of its hosts needs the extra libvirt: make libvirt")
    arguments = ["up", "--scenario", "openstack", "--for", "0.1s"]
    seen = {}
    shown_at = on_terminal(AT_EVERY_WIDTH, *arguments).split(BETWEEN)
    for width, shown in zip(WIDTHS, shown_at, strict=True):
        assert max(map(len, shown.splitlines())) <= width
        seen[width] = f"$ corewise {' '.join(arguments)}\n{shown}"
    compare_screens("up-openstack", seen)


BETWEEN = "--- next width\n"
AT_EVERY_WIDTH = f"""
import os, sys
from corewise.cli import main
from corewise_lab.cli import openstack

def at_every_width(*report, rendered=openstack._rendered):
    screens = []
    for width in {WIDTHS}:
        os.environ["COLUMNS"] = str(width)
        screens.append(rendered(*report))
    return {BETWEEN!r}.join(screens)

openstack._rendered = at_every_width
main(sys.argv[1:])
"""
"""Runs a command whose report is rendered once for each width."""


def test_local_cluster_output_fits_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = load_scenario("builtin").plan(3)
    options = RunOptions(plan, Folder(tmp_path), 0.1)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    teller = Teller(Form.TABLE, tmp_path / "kubeconfig", open_ended=False)
    report = asyncio.run(run(options, teller, asyncio.Event()))
    said = capsys.readouterr().out
    seen = {}
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("NO_COLOR", "1")
        print_report(report, Form.TABLE)
        shown = masked(capsys.readouterr().out, TIMES)
        assert max(map(len, shown.splitlines())) <= width
        seen[width] = f"$ corewise up --nodes 3\n{shown}"
    assert said.startswith("scenario builtin: 3 nodes")
    compare_screens("up", seen)


TIMES = [
    (r"(?s)(?<=\n)time: .*?(?=\n\n)", "TIMES AND RESIDENT MEMORY"),
]


WITHOUT_A_SCREEN = {
    "agent": "its output is a log",
    "agent restore": "its output is a log",
    "completion": "prints a script for a shell",
    "compute run": "its output is a log",
    "config starter": "prints a file",
    "config suggest": "prints a table, and below it a file",
    "manager": "its output is a log",
    "manager policy": "prints manifests",
    "report": "prints a page",
    "scheduler": "its output is a log",
    "scheduler config": "prints files",
    "scheduler policy": "prints manifests",
    "web": "serves until it is stopped; tests/web shows what",
}


def commands(command: click.Command, *path: str) -> Iterator[str]:
    """Yield every command that does something itself."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from commands(below, *path, name)


def test_every_command_has_a_screen_or_an_exemption() -> None:
    every = sorted(commands(corewise), key=len, reverse=True)
    text = "\n".join(file.read_text() for file in sorted((EXPECTED / "screens").iterdir()))
    calls = {f"{line} " for line in re.findall(r"^\$ corewise (.*)", text, flags=re.MULTILINE)}
    found = {next(name for name in every if call.startswith(f"{name} ")) for call in calls}
    assert set(every) - found == WITHOUT_A_SCREEN.keys()


def on_terminal(program: str, *arguments: str) -> str:
    """Return the output of a Python program on the pseudo-terminal that is its stdout."""
    ours, its = pty.openpty()
    environment = {**os.environ, **ENVIRONMENT, "TERM": "dumb"}
    command = [sys.executable, "-c", program, *arguments]
    shown = b""
    with subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(its)
        with suppress(OSError):  # Linux says EIO when the process has closed its end
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")

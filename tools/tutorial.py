"""Runs a page of the docs: its commands, and whether they print what the page says.

A page with blocks of ``sh`` is one shell. A block of ``sh`` is pasted into it; the block of ``text`` after
it is what that prints, where ``…`` stands for any text in a line, and a line of ``…`` for any lines. A block
succeeds, unless the page shows what it prints. Blocks of any other kind are for other machines. Needs nothing
but Python: the pages of ``docs/start`` run where nothing of development is installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

PATIENCE = 300.0
_MARK = "--- end of block"
_LATE = 124
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """The commands to paste, and the output that the page shows."""

    commands: str
    output: str | None


@dataclass(frozen=True)
class Done:
    """The output of a step, and its exit code."""

    step: Step
    text: str
    code: int

    @property
    def problem(self) -> str:
        """The difference from the page; empty if there is none."""
        said = f"pasted:\n{self.step.commands}\nprinted (exit code {self.code}):\n{self.text}"
        if self.step.output is None:
            return "" if self.code == 0 else said
        if re.fullmatch(_pattern(self.step.output), _squeezed(self.text) + "\n"):
            return ""
        return f"{said}\nthe page says:\n{self.step.output}"


def steps(page: Path) -> list[Step]:
    """Return the steps of a page in Markdown."""
    blocks = [*_BLOCK.findall(page.read_text(encoding="utf-8")), ("", "")]
    return [
        Step(text, shown if kind == "text" else None)
        for (language, text), (kind, shown) in pairwise(blocks)
        if language == "sh"
    ]


def run(page: Path, folder: Path, environment: Mapping[str, str], *, between: str = ":") -> list[Done]:
    """Run a page's commands in a folder; return what each step did, up to one that the shell did not survive.

    ``between``: a command after each step. Whatever a page starts in the background has ended afterwards.
    """
    todo = steps(page)
    script = "".join(f"{step.commands}\nprintf '\\n{_MARK} %s\\n' $?\n{between}\n" for step in todo)
    printed, _ = shell(script, folder, environment, patience=PATIENCE)
    *parts, rest = re.split(rf"\n{_MARK} (\d+)\n", printed)
    done = [
        Done(step, text, int(code)) for step, text, code in zip(todo, parts[::2], parts[1::2], strict=False)
    ]
    return done if len(done) == len(todo) else [*done, Done(Step(todo[len(done)].commands, None), rest, 1)]


def shell(script: str, folder: Path, environment: Mapping[str, str], *, patience: float) -> tuple[str, int]:
    """Run a script; return what it prints, and its exit code (124: it took longer than ``patience``)."""
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=folder,
        env=environment,
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            return process.communicate(timeout=patience)[0], process.returncode
        except subprocess.TimeoutExpired as late:
            printed = late.output or b""
            text = printed if isinstance(printed, str) else printed.decode(errors="replace")
            return f"{text}\nstill running after {patience:g} s", _LATE
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def _pattern(shown: str) -> str:
    """Return the regular expression for the output that a page shows."""
    return "".join(
        r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in _squeezed(shown).splitlines()
    )

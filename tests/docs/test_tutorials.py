"""The tutorials' commands run, as the built pages show them, and print what the pages say.

A page with blocks of ``sh`` is one shell. A block of ``sh`` is pasted into it; the block of ``text`` after
it is what that prints, where ``…`` stands for any text in a line, and a line of ``…`` for any lines. A block
succeeds, unless the page shows what it prints. Blocks of any other kind are for other machines.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from kubectl_binary import KUBECTLS, Kubectl

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted(
    str(path.relative_to(ROOT / "docs").with_suffix(""))
    for path in (ROOT / "docs").rglob("*.md")
    if "\n```sh\n" in path.read_text()
)
PATIENCE = 300.0
MARK = "--- end of block"


class Blocks(HTMLParser):
    """Collects the blocks of code of a page, each with its language."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._language, self._text = "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "div" and "highlight" in classes:
            self._language = next((each[9:] for each in classes if each.startswith("language-")), "")
        elif tag == "pre":
            self._text = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self.found.append((self._language, self._text))

    def handle_data(self, data: str) -> None:
        self._text += data


@dataclass(frozen=True)
class Step:
    """What is pasted, and what the page says it prints."""

    commands: str
    output: str | None


def steps(page: Path) -> list[Step]:
    parser = Blocks()
    parser.feed(page.read_text())
    blocks = [*parser.found, ("", "")]
    return [
        Step(text, shown if kind == "text" else None)
        for (language, text), (kind, shown) in pairwise(blocks)
        if language == "sh"
    ]


def squeezed(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def pattern(shown: str) -> str:
    """Return the expression for what a page says is printed."""
    return "".join(
        r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in squeezed(shown).splitlines()
    )


def project(folder: Path) -> Path:
    """Return a copy of the project's files, with its virtual environment."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def run(script: str, folder: Path, environment: dict[str, str]) -> str:
    """Return what a shell prints; whatever it started in the background has ended afterwards."""
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-c", script],
        cwd=folder, env=environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as shell:  # fmt: skip
        try:
            return shell.communicate(timeout=PATIENCE)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_prints_what_it_says_when_its_commands_are_pasted(
    name: str, site: Path, tmp_path: Path
) -> None:
    todo = steps(site / f"{name}.html")
    assert len(todo) > 2
    if any("kubectl" in step.commands for step in todo):
        if not KUBECTLS:
            pytest.skip("there is no kubectl on PATH, and COREWISE_TEST_KUBECTL names none")
        Kubectl(KUBECTLS[0], tmp_path / "none", tmp_path).needs(31)  # waits for a field of any value
    folder = project(tmp_path / "corewise")
    path = os.pathsep.join([*(str(Path(each).parent) for each in KUBECTLS[:1]), os.environ["PATH"]])
    environment = {
        "PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8", "TERM": "dumb",
        "PYTHONPATH": str(folder / "src"),  # what a page changes is what it runs
    }  # fmt: skip
    script = "".join(f"{step.commands}\nprintf '\\n{MARK} %s\\n' $?\n" for step in todo)
    printed = run(script, folder, environment)
    *parts, rest = re.split(rf"\n{MARK} (\d+)\n", printed)
    said = list(zip(parts[::2], parts[1::2], strict=True))
    assert (len(said), rest) == (len(todo), ""), printed
    for step, (text, code) in zip(todo, said, strict=True):
        where = f"pasted:\n{step.commands}\nprinted (exit code {code}):\n{text}"
        if step.output is None:
            assert code == "0", where
        else:
            as_said = re.fullmatch(pattern(step.output), squeezed(text) + "\n")
            assert as_said is not None, f"{where}\nthe page says:\n{step.output}"

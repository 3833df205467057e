"""Play a case in a directory of its own, and write down what a user sees; compare that with what is kept.

A line of a case is a command of corewise without its first word. These are understood too:

    ... < FILE          stdin is this file
    ... > FILE          stdout goes to this file and is not written down
    cat FILE...         write files down
    cp FILE FILE        copy
    truncate FILE N     keep the first N bytes
    unpack FILE DIR     make a tree of files from a JSON object of paths and contents
    machine NAME DIR    make /proc and /sys of a recorded machine
    history FILE        make a history of pods, nodes and their pressures
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from golden import harness

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
EXPECTED = HERE / "expected"
REWRITE = "COREWISE_GOLDEN"
KEPT, *WIDER = WIDTHS = (80, 120, 200)
"""Columns of the terminals that are tried; the screens of the first are kept."""
ENVIRONMENT = {"COLUMNS": "100", "LINES": "50", "NO_COLOR": "1", "TZ": "UTC", "KUBECONFIG": "nowhere"}
MASKS = [
    (r"(?<=127\.0\.0\.1:)[3-6]\d{4}", "PORT"),
    (r"(?<=corewise, version ).*", "VERSION"),
    (r'(?<="time": )\d{10}\.\d*[1-9]\d*', "NOW"),
    (r"(?<=\d\.\d{5})\d{4,}", "~"),
]
"""What is different in every run, and what stands in its place."""
_LEFT_OUT = re.compile(r"^(columns left out|texts cut): .*?shows all\)$", re.DOTALL | re.MULTILINE)
_NOT_FOR_PEOPLE = (
    *("cat ", "cp ", "truncate ", "unpack ", "machine ", "history "),
    *("agent ", "compute run "),  # what they write, as a log has it
)


def masked(text: str, masks: Iterable[tuple[str, str]]) -> str:
    for pattern, replacement in masks:
        text = re.sub(pattern, replacement, text)
    return text


def transcript(
    lines: Iterable[str],
    directory: Path,
    masks: Iterable[tuple[str, str]] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
    *,
    columns: int | None = None,
) -> str:
    """Play lines one after the other; return what is seen.

    ``columns`` is the width of a terminal. There, only what is printed for people is written down.
    """
    if columns is not None:
        environment = {**environment, "COLUMNS": str(columns), "TERM": "dumb"}
    with harness.working_in(directory):
        played = [
            (line, _played(line, directory, environment, on_terminal=columns is not None)) for line in lines
        ]
    text = "\n".join(seen for line, seen in played if columns is None or _is_for_people(line))
    return masked(text.replace(str(directory), "DIR"), [*MASKS, *masks])


def _is_for_people(line: str) -> bool:
    """Say whether a line is a command whose output is no log, not for programs, and not ``-o wide``."""
    return not line.startswith(_NOT_FOR_PEOPLE) and " -o " not in line


def longest_line(seen: str) -> str:
    """Return the longest line that the commands of a transcript wrote to stdout.

    A line to paste into a shell does not count: broken into two it would be none.
    """
    commands = re.split(r"^\$ .*\n", seen, flags=re.MULTILINE)
    stdout = (re.split(r"^--- ", each, flags=re.MULTILINE)[0] for each in commands)
    lines = (line for text in stdout for line in text.splitlines())
    return max((line for line in lines if not re.match(" +kubectl ", line)), key=len, default="")


def lost(narrow: str, wide: str) -> str:
    """Return a column or the first word of a line that a wider terminal does not show in the same order.

    It is "" if nothing is lost. The remark that names the columns left out does not count.
    """
    shown = iter(wide.split())
    needed = (
        word
        for line in _LEFT_OUT.sub("", narrow).splitlines()
        for word in (line.split() if line.isupper() or line.startswith("$ ") else line.split()[:1])
    )
    return next((word for word in needed if word not in shown), "")


def _played(line: str, directory: Path, environment: Mapping[str, str], *, on_terminal: bool = False) -> str:
    command, *arguments = shlex.split(line)
    seen = f"$ {line}\n"
    match command:
        case "cat":
            return seen + "".join(_text(Path(each).read_text()) for each in arguments)
        case "cp":
            shutil.copy(*arguments)
        case "truncate":
            os.truncate(arguments[0], int(arguments[1]))
        case "unpack":
            for path, content in json.loads(Path(arguments[0]).read_text()).items():
                file = Path(arguments[1], path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
        case "machine":
            harness.make_machine(arguments[0], directory / arguments[1])
        case "history":
            harness.make_history(directory / arguments[0])
        case _:
            called = _called([command, *arguments], environment, on_terminal=on_terminal)
            return f"$ corewise {line}\n{called}"
    return seen


def _called(arguments: list[str], environment: Mapping[str, str], *, on_terminal: bool) -> str:
    stdin, target = b"", None
    if len(arguments) > 2 and arguments[-2] == "<":
        stdin, arguments = Path(arguments[-1]).read_bytes(), arguments[:-2]
    elif len(arguments) > 2 and arguments[-2] == ">":
        target, arguments = Path(arguments[-1]), arguments[:-2]
    code, out, err = harness.run(arguments, stdin, environment, on_terminal=on_terminal)
    if target:
        target.write_bytes(out)
        out = b""
    seen = _text(out.decode())
    if err:
        seen += "--- stderr\n" + _text(err.decode())
    return seen + (f"--- exit {code}\n" if code else "")


def _text(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n(no newline)\n"


def compare(name: str, seen: str) -> None:
    """Fail, with a diff, if what is seen is not what is kept; or keep it, if that is wanted.

    Raises:
        AssertionError: if it differs.
    """
    file = EXPECTED / f"{name}.txt"
    if os.environ.get(REWRITE) == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(seen)
        return
    kept = file.read_text() if file.exists() else ""
    if seen != kept:
        lines = difflib.unified_diff(
            kept.splitlines(keepends=True), seen.splitlines(keepends=True), str(file), "this run"
        )
        raise AssertionError(f"not as it was; if that is meant: make golden\n{''.join(lines)}")


def compare_screens(name: str, seen: Mapping[int, str]) -> None:
    """Compare the narrowest screen with the one that is kept, and wider ones with it.

    Raises:
        AssertionError: if it differs, or a wider one shows less.
    """
    for width in WIDER:
        assert not lost(seen[KEPT], seen[width]), width
    compare(f"screens/{name}", seen[KEPT])

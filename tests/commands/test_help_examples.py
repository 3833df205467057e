"""Every command's help ends with commands that can be pasted, and the real options take them.

Only what is parsed is checked: nothing runs. Files that an example names are there, empty.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from commands.command_tree import contexts
from corewise.cli import corewise

HELP = {each.command_path: each.get_help() for each in contexts() if each.parent}


def examples(text: str) -> list[str]:
    """Return the commands below "Examples:", each in one line."""
    _, _, shown = text.partition("\n  Examples:\n")
    return shown.partition("\n\n")[0].replace("\\\n", " ").strip().splitlines()


def calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of corewise in a line of a shell."""
    for part in re.split(r"&&|[|]|<\(", line.rstrip(")")):
        words = shlex.split(part.partition(">")[0])
        if words[:1] == ["corewise"]:
            yield words[1:]


def parse(arguments: list[str]) -> None:
    """Parse a call as click does before it runs the command."""
    context = corewise.make_context("corewise", list(arguments))
    while isinstance(context.command, click.Group):
        group, rest = context.command, [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = group.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("path", HELP)
def test_a_commands_help_has_an_example_of_it(path: str) -> None:
    found = [arguments for line in examples(HELP[path]) for arguments in calls(line)]
    assert any(path.split()[1:] == arguments[: len(path.split()) - 1] for arguments in found)


@pytest.mark.parametrize("path", HELP)
def test_commands_accept_the_examples_in_their_help(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in examples(HELP[path]):
        for name in re.findall(r"[\w.-]+\.(?:json|yaml|xml|crt|key)\b", line):
            Path(name).touch()
    Path("cloud/hosts").mkdir(parents=True)
    for line in examples(HELP[path]):
        for arguments in calls(line):
            parse(arguments)
            with pytest.raises(click.UsageError):
                parse([*arguments, "--no-such-option"])

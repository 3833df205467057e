"""Every command of the command line, each in its context."""

from __future__ import annotations

from collections.abc import Iterator

import click

from corewise.cli import corewise


def contexts(
    command: click.Command = corewise, name: str = "corewise", parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield the context of a command, and those of the commands below it.

    A command keeps the help option of the first context that asks for it: settings must not be left out.
    """
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=80, **command.context_settings
    )
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from contexts(below, each, context)

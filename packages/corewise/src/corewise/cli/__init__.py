"""The ``corewise`` command: one file per subcommand, imported only when it is called.

Results go to stdout, messages to stderr. A failure is one line that says what is wrong and one that says what
to do; exit codes are those of :mod:`corewise.vocabulary.exit_codes`.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import click

from corewise import __version__
from corewise.cli.commit import with_commit
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.extensions import PACKAGES, added_commands, not_installed

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

KUBECTL_PLUGIN = "kubectl-corewise"

_CANNOT_HOLD_MORE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
COMMANDS: dict[str, tuple[str, str]] = {
    "nodes": ("corewise.cli.nodes", "List nodes: raw, normalized, amplified, requested and free."),
    "top": ("corewise.cli.top", "Watch nodes, pods and offline pods: what CPU they have, and why."),
    "web": ("corewise.cli.web", "Serve a page that shows nodes, pods and offline work as they change."),
    "explain": (
        "corewise.cli.explain",
        "Explain a node's ratios, the CPU of its offline pods, or a pod's node and CPUs.",
    ),
    "report": (
        "corewise.cli.report",
        "Print a page for those who decide: what CPUs are worth, what is gained, and problems.",
    ),
    "manager": ("corewise.cli.manager", "Keep every node at its ratios, and serve the webhooks."),
    "scheduler": ("corewise.cli.scheduler", "Answer kube-scheduler, and check every binding."),
    "agent": (
        "corewise.cli.agent",
        "Divide this node's CPU quotas by its ratio; report its CPUs.",
    ),
    "audit": ("corewise.cli.audit", "Show what was written to this node's cgroups, and why."),
    "topology": ("corewise.cli.topology", "Show what this machine is made of, from sockets to CPUs."),
    "calibrate": ("corewise.cli.calibrate", "Measure this machine's CPU; turn measurements into ratios."),
    "profile": (
        "corewise.cli.profile",
        "Show what types of workload use and what slows them down, from a history.",
    ),
    "check": (
        "corewise.cli.check_metrics",
        "Check that Prometheus has the metrics that interference-aware scheduling needs.",
    ),
    "config": ("corewise.cli.config", "Check configuration before the cluster uses it."),
    "uninstall": (
        "corewise.cli.uninstall",
        "Check whether it is safe to remove corewise from the cluster, and what to undo first.",
    ),
    "completion": (
        "corewise.cli.completion",
        "Print the script that completes corewise in bash, zsh or fish.",
    ),
}
"""Command name -> where it is, ``module`` (for its ``command``) or ``module:name``; and its line of help."""


class LazyGroup(click.Group):
    """A group that knows its commands' names and help lines (a table as COMMANDS) without importing them.

    ``added`` returns the rows that other distributions add.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]],
        added: Callable[[], Mapping[str, tuple[str, str]]] = dict,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._own, self._added = table, added

    @cached_property
    def _table(self) -> Mapping[str, tuple[str, str]]:
        return {**self._own, **self._added()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._own.get(cmd_name) or self._table.get(cmd_name)
        if found is None:
            return None
        module, _, attribute = found[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = name in self._own or name in self._table
        if not known and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415 - for a misspelled command only

            if package := PACKAGES.get(name):
                raise not_installed(f"corewise {name}", package)
            near = [f"'{each}'" for each in get_close_matches(name, self._table)]
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command '{name}'.{meant}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete commands from the table; click would import all of them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - a shell's completion only

        commands = [
            CompletionItem(name, help=line)
            for name, (_, line) in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what goes wrong between it and the world ends it as a Failure.

        The tasks of a program raise a group. If a bug is among the errors, the group stays as it is.
        """
        from corewise.vocabulary import errors  # noqa: PLC0415 - slow, and --help needs none

        try:
            return super().invoke(ctx)
        except errors.OperationalError as error:
            raise Failure.of(error) from error
        except ExceptionGroup as group:
            first = errors.first_error(group, errors.OperationalError)
            if first is None or group.split(errors.OperationalError)[1] is not None:
                raise
            raise Failure.of(first) from group

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, line) for name, (_, line) in self._table.items()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if value and not ctx.resilient_parsing:
        click.echo(f"corewise, version {with_commit(__version__)}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    added=added_commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success; 1 the answer is no; 2 wrong call; 3 no answer from a server; 4 not found; "
    "5 bad input; 6 refused; 7 stdout is full; 8 credentials not accepted (401) or not allowed (403); "
    "9 conflict with another writer; 10 the ledger cannot be used.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def corewise() -> None:
    """Manage the CPUs of a cluster.

    One CPU in a request means the same on every node, offline pods use the CPU that online pods leave idle,
    and every dedicated and shared CPU is accounted for.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit. A Failure becomes its message, its hint and its exit code.

    kubectl runs the command kubectl-corewise as ``kubectl corewise``; usage lines and errors then say that.
    """
    name = "kubectl corewise" if sys.argv[0].rpartition("/")[2] == KUBECTL_PLUGIN else "corewise"
    options: dict[str, Any] = {"args": arguments, "prog_name": name, "standalone_mode": True}
    try:
        corewise(**options)
    except Failure as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_HOLD_MORE:
            raise
        _give_up_stdout()
        print(f"{name}: stdout cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(ExitCode.OUTPUT)
    sys.exit(0)


def _give_up_stdout() -> None:
    """Discard the rest of the output: Python flushes at its end, and would fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

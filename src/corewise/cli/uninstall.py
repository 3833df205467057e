"""``corewise uninstall --check``: is it safe to remove corewise, and if not, which commands make it safe.

Nothing undoes what the programs did once they are gone: a node that is still amplified becomes raw at its
kubelet's next write, whether its pods fit or not, and quotas and CPU sets stay as the agents wrote them. So
all that must be undone before, while the programs still run and do it themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from corewise.cli import output
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.options import cluster_options, examples
from corewise.cli.output import Form

if TYPE_CHECKING:
    from corewise.cli.uninstall_check import Hindrance

_UNINSTALL = "helm uninstall corewise -n corewise-system, or kubectl delete -k deploy"


@click.command(
    epilog=examples(
        "corewise uninstall --check",
        "corewise uninstall --check && helm uninstall corewise -n corewise-system",
    )
)
@cluster_options
@click.option("--check", is_flag=True, help="Say what must be undone first (required).")
@output.option([Form.TABLE, Form.JSON, Form.YAML, Form.NAME])
def command(
    kubeconfig: str | None, context: str | None, config_namespace: str, form: Form, *, check: bool
) -> None:
    """Say whether it is safe to uninstall corewise. It changes nothing.

    It is safe when every node is raw, agents have put back the quotas of pods and offer nothing to offline
    pods, no pod owns CPUs, and the uninstall deletes what manager and scheduler have installed. Each line is
    followed by the command that gets there; the programs must run until then. Exit code 1 if something is
    left to undo.
    """
    if not check:
        raise click.UsageError(f"this command only checks, with --check. To uninstall: {_UNINSTALL}")
    # What decides about nodes needs numpy and an HTTP client; --help is quick without them.
    from corewise.cli.uninstall_check import hindrances  # noqa: PLC0415
    from corewise.kube.config import load_config  # noqa: PLC0415

    found = asyncio.run(hindrances(load_config(kubeconfig, context), config_namespace))
    click.echo(_text(found, form), nl=False)
    if found:
        raise Failure(
            f"not safe to uninstall yet: {output.count(len(found), 'thing')} to undo first",
            hint="run the commands above, wait a minute, and check again: corewise uninstall --check",
            exit_code=ExitCode.VERDICT,
        )
    output.say(f"It is safe to uninstall: {_UNINSTALL}")


def _text(found: Iterable[Hindrance], form: Form) -> str:
    if form is Form.NAME:
        return "".join(f"{each.object}\n" for each in found)
    if form is not Form.TABLE:
        return output.document_text({"items": [each.record for each in found]}, form)
    return "".join(_lines(found))


def _lines(found: Iterable[Hindrance]) -> Iterator[str]:
    for each in found:
        yield output.Screen.of_stdout().wrapped(f"{each.object}: {each.why}") + "\n"
        yield f"    {each.command}\n"

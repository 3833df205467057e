"""``corewise uninstall``: the steps that remove corewise, and with ``--check`` only whether it is safe now.

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
from corewise.cli.same_cluster import for_same_cluster
from corewise.views.text import count
from corewise.vocabulary.names import CONFIG_NAME

if TYPE_CHECKING:
    from corewise.views.uninstall_check import Hindrance, Removal


@click.command(
    epilog=examples(
        "corewise uninstall",
        "corewise uninstall --check",
        "corewise uninstall --check && helm uninstall corewise -n corewise-system",
    )
)
@cluster_options
@click.option("--check", is_flag=True, help="Print only what must be undone first; exit code 1 if anything.")
@output.option([Form.TABLE, Form.JSON, Form.YAML, Form.NAME])
def command(
    kubeconfig: str | None, context: str | None, config_namespace: str, form: Form, *, check: bool
) -> None:
    """Print the steps that uninstall corewise. It changes nothing.

    The first step lists what must be undone, with the command for each; the programs must run until
    then. It is safe to go on when every node is raw, agents have put back the quotas of pods, and neither
    offer CPU to offline pods nor hold them back, no pod owns CPUs, and the uninstall deletes what manager
    and scheduler have installed. The other steps are those of the installation that is found: Helm's or
    kubectl's.

    Exit codes: 0 printed, or with --check safe; 1 with --check and something left to undo; 2 wrong call; 3 no
    answer from the cluster; 8 something may not be read.
    """
    # What decides about nodes needs numpy and an HTTP client; --help is quick without them.
    from corewise.kube.config import load_config  # noqa: PLC0415
    from corewise.views.uninstall_check import removal  # noqa: PLC0415

    found = asyncio.run(removal(load_config(kubeconfig, context), config_namespace))
    if check or form is not Form.TABLE:
        click.echo(_text(found, form), nl=False)
    else:
        click.echo("".join(_steps(found, config_namespace)), nl=False)
    if not check:
        return
    if found.hindrances:
        raise Failure(
            f"not safe to uninstall yet: {count(len(found.hindrances), 'thing')} to undo first",
            hint="run the commands above, wait a minute, and check again: corewise uninstall --check",
            exit_code=ExitCode.VERDICT,
        )
    output.say(f"It is safe to uninstall: {found.command or _NOT_INSTALLED}")


_NOT_INSTALLED = "none of the programs is installed"


def _steps(found: Removal, config_namespace: str) -> Iterator[str]:
    """Yield the steps in their order, with the obstacles that are left."""
    if not found.command:
        yield f"{_NOT_INSTALLED[0].upper()}{_NOT_INSTALLED[1:]}.\n"
        if not found.hindrances and not found.kept:
            return
        if found.hindrances:
            yield "They left something to undo. Install them again, then:\n"
    left = count(len(found.hindrances), "thing")
    steps = [
        (f"Undo what the programs did, while they run: {left} left.", "".join(_lines(found.hindrances)))
        if found.hindrances
        else ("Undo what the programs did: nothing is left.", "")
    ]
    if found.has_scheduler:
        steps.append(("Remove the extender from the configuration of kube-scheduler, and restart it.", ""))
    if found.hindrances:
        steps.append(("Check that nothing is left to undo:", "    corewise uninstall --check\n"))
    if found.command:
        steps.append(("Uninstall:", f"    {found.command}\n"))
    kept = (f"configmap {CONFIG_NAME} -n {config_namespace}", "noderesourcetopologies --all")
    deleting = "".join(f"    kubectl delete {each}\n" for each in kept)
    deleting += "".join(f"    {each.command}\n" for each in found.kept)
    steps.append(("Delete what stays, if nothing else uses it:", deleting))
    for number, (title, lines) in enumerate(steps, 1):
        yield for_same_cluster(f"{number}. {title}\n{lines}")


def _text(found: Removal, form: Form) -> str:
    if form is Form.NAME:
        return "".join(f"{each.object}\n" for each in found.hindrances)
    if form is not Form.TABLE:
        items, kept = (
            [{**each.record, "command": for_same_cluster(each.command)} for each in part]
            for part in (found.hindrances, found.kept)
        )
        uninstall = for_same_cluster(found.command)
        return output.document_text({"items": items, "uninstall": uninstall, "kept": kept}, form)
    return "".join(_lines(found.hindrances))


def _lines(found: Iterable[Hindrance]) -> Iterator[str]:
    for each in found:
        yield output.Screen.of_stdout().wrapped(f"{each.object}: {each.why}") + "\n"
        yield for_same_cluster(f"    {each.command}\n")

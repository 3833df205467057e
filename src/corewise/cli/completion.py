"""``corewise completion``: the script by which a shell completes commands, options and their values.

Node and pod names come from the cluster, scenarios from the package. A user waits at a prompt, so the cluster
has two seconds to answer; an error completes nothing and prints nothing.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from corewise.cli.options import examples

PATIENCE_SECONDS = 2.0
_NO_FILES, _FILES = 4, 0
"""The last line of what kubectl reads: whether it may complete file names (Cobra's ShellCompDirective)."""
_SHELLS = ("bash", "zsh", "fish")
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


@click.command(epilog=examples("source <(corewise completion bash)"))
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script that completes corewise in SHELL: commands, options, nodes, pods, scenarios, reasons.

    \b
    bash: corewise completion bash > ~/.local/share/bash-completion/completions/corewise
    zsh:  corewise completion zsh > "${fpath[1]}/_corewise"
    fish: corewise completion fish > ~/.config/fish/completions/corewise.fish

    kubectl 1.26 and newer completes kubectl corewise too: kubectl_complete-corewise comes with this package.
    """  # noqa: D301 - click keeps the lines below a backspace as they are
    from corewise.cli import corewise  # noqa: PLC0415 - the group that this command belongs to

    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 - click has all three
    click.echo(script(corewise, {}, "corewise", "_COREWISE_COMPLETE").source())


def complete_for_kubectl() -> None:
    """Print what can follow a command line's words: kubectl runs this as ``kubectl_complete-corewise``."""
    from corewise.cli import corewise  # noqa: PLC0415 - see above

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(corewise, {}, "kubectl corewise", "").get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_FILES if any(item.type == 'file' for item in found) else _NO_FILES}")


def node_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete the name of a node of the cluster that the command line names."""
    names = (name for _, name in _objects(context, "nodes"))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def pod_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete NAMESPACE/NAME of a pod; one of the namespace default may be named without it."""
    found = _objects(context, "pods")
    names = [f"{namespace}/{name}" for namespace, name in found]
    names += [name for namespace, name in found if namespace == "default"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def scenario_names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete the name of a scenario, or of a file."""
    from corewise.simulation.scenario import scenario_descriptions  # noqa: PLC0415 - slow to import

    found = [
        CompletionItem(name, help=description)
        for name, description in scenario_descriptions().items()
        if name.startswith(incomplete)
    ]
    return found or [CompletionItem(incomplete, type="file")]


def _objects(context: click.Context, plural: str) -> list[tuple[str, str]]:
    """Return namespace and name of the cluster's nodes or pods, in order; none if it does not answer soon."""
    from corewise.kube.client import Client  # noqa: PLC0415 - slow, and --help needs none
    from corewise.kube.config import load_config  # noqa: PLC0415
    from corewise.kube.objects import PartialObject  # noqa: PLC0415
    from corewise.kube.resources import NODES, PODS  # noqa: PLC0415
    from corewise.vocabulary.errors import OperationalError  # noqa: PLC0415

    resource = (NODES if plural == "nodes" else PODS).typed(PartialObject)

    async def listed() -> list[tuple[str, str]]:
        cluster = load_config(context.params.get("kubeconfig"), context.params.get("context"))
        async with asyncio.timeout(PATIENCE_SECONDS), Client(cluster, on_warning=None) as client:
            items = await client.list(resource)
            return sorted((item.metadata.namespace, item.metadata.name) for item in items)

    logging.getLogger("corewise").addHandler(logging.NullHandler())
    try:
        return asyncio.run(listed())
    except (OperationalError, OSError):  # TimeoutError is an OSError
        return []

"""``corewise completion``: the script by which a shell completes commands, options and their values.

What the values are, ``corewise.cli.completers`` says.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

from corewise.cli.choice import Choice
from corewise.cli.options import examples

_NO_FILES, _FILES = 4, 0
"""The last line of what kubectl reads: whether it may complete file names (Cobra's ShellCompDirective)."""
_SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=examples("source <(corewise completion bash)"))
@click.argument("shell", type=Choice(_SHELLS))
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
    text = script(corewise, {}, "corewise", "_COREWISE_COMPLETE").source()
    # In fish, click's script would cut what a command does at its first comma.
    click.echo(text.replace('string split ","', 'string split --max 1 ","'))


def complete_for_kubectl() -> None:
    """Print the completions of a command line's words: kubectl runs this as ``kubectl_complete-corewise``."""
    from corewise.cli import corewise  # noqa: PLC0415 - see above

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(corewise, {}, "kubectl corewise", "").get_completions(words, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_FILES if any(item.type == 'file' for item in found) else _NO_FILES}")

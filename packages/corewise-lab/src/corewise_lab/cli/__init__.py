"""Commands that this distribution adds to ``corewise``, imported only when they are called."""

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("corewise_lab.cli.up", "Run a local cluster of simulated machines, and report."),
    "plan": ("corewise_lab.cli.plan", "Place all pods of a dump offline; compare two configurations."),
}
"""Command name -> its module (for its ``command``) and its line of help, as :mod:`corewise.cli` has them."""

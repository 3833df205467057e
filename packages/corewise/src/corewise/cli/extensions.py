"""Commands and parts of commands that corewise-lab and corewise-openstack add when they are installed.

A distribution names them in its entry points. ``corewise.commands`` has tables of commands (as
:data:`corewise.cli.COMMANDS`), ``corewise.parts`` objects that a command of this distribution uses. A table
is imported when commands are listed or an unknown one is called, a part when its command runs.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import corewise
from corewise.cli.errors import ExitCode, Failure

PACKAGES = {"compute": "corewise-openstack", "plan": "corewise-lab", "up": "corewise-lab"}
"""Command -> the distribution that has it."""


def added_commands() -> dict[str, tuple[str, str]]:
    """Return the commands of the other distributions installed here: name -> (module, line of help)."""
    tables = [each.load() for each in sorted(entry_points(group="corewise.commands"))]
    return {name: entry for table in tables for name, entry in table.items()}


def part(name: str) -> Any:
    """Return a part by name, or None if no distribution here has it."""
    found = entry_points(group="corewise.parts", name=name)
    return next(iter(found)).load() if found else None


def not_installed(what: str, package: str) -> Failure:
    """Return the end of a command of which a distribution is missing."""
    missing = ("kubedouble", package) if package == "corewise-lab" else (package,)
    wheels = " ".join(
        f"./{name.replace('-', '_')}-{corewise.__version__}-py3-none-any.whl" for name in missing
    )
    clone = _TARGETS[package]
    return Failure(
        f"{what} is part of {package}, which is not installed",
        hint=f"install it from the release's wheels: pip install {wheels}, or in a clone: make {clone}",
        exit_code=ExitCode.BAD_INPUT,
    )


_TARGETS = {"corewise-openstack": "openstack", "corewise-lab": "up"}
"""Distribution -> the target of make that installs it."""

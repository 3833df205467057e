"""The commit that corewise is built from.

The build keeps it in a file beside this module. A clone has no such file, and git knows. The build runs this
module by its path, so it imports nothing of corewise.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

FILE = "commit.txt"
_HERE = Path(__file__).resolve().parent
_IN_A_CLONE = ("packages", "corewise", "src", "corewise", "cli")
_PATIENCE = 10.0


def with_commit(version: str) -> str:
    """Return a version with its commit in brackets, or the version alone if the commit is unknown."""
    found = commit()
    return f"{version} ({found})" if found else version


def commit(here: Path = _HERE) -> str:
    """Return the commit, with ``-dirty`` if files differ from it; empty if it is unknown."""
    kept = here / FILE
    if kept.exists():
        return kept.read_text(encoding="utf-8").strip()
    if here.parts[-len(_IN_A_CLONE) :] != _IN_A_CLONE:
        return ""
    clone = here.parents[len(_IN_A_CLONE) - 1]
    if not (clone / ".git").exists():
        return ""
    describe = ("describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")
    try:
        done = subprocess.run(  # noqa: S603 - git of this machine, in the clone that this file belongs to
            ("git", "--no-optional-locks", "-C", str(clone), *describe),  # noqa: S607 - wherever it is
            capture_output=True,
            text=True,
            check=True,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()

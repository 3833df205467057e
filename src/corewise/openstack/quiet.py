"""OpenStack's libraries warn of each other's deprecations; nobody here can mend that, so it is not shown."""

from __future__ import annotations

import warnings


def quietly() -> warnings.catch_warnings[None]:
    """Return a block within which no warning is shown; for one thread at a time, as Python has it."""
    return warnings.catch_warnings(action="ignore")

"""The pytest plugin: the fixture ``kubedouble``. Installing the package is enough to have it.

It imports the server when a test asks for it: pytest loads this module in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kubedouble.testing import RunningServer


@pytest.fixture
def kubedouble() -> Iterator[RunningServer]:
    """A Kubernetes API server of the test's own: ``url``, ``kubeconfig``, ``kubeconfig_for``, ``client``."""
    from kubedouble.testing import run_server  # noqa: PLC0415 - imported when a test asks for it

    with run_server() as server:
        yield server

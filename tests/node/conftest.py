"""Tests that need a machine to themselves, virtual or not, run when ``make test-node`` asks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node.virtual_machines import STALLS

_HERE = Path(__file__).parent
ASKED_FOR = "COREWISE_TEST_NODE"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get(ASKED_FOR):
        return
    skip = pytest.mark.skip(reason="slow, fetches packages: make test-node runs it")
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell which boots were tried again, and why."""
    for stall in STALLS:
        terminalreporter.write_line(f"virtual machine tried again: {stall}", yellow=True)

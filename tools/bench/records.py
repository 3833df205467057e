"""Results as data: a file in docs/benchmarks/data for each measurement.

A file says by which command, on which machine and at which commit it was measured, and how much else ran
there. pages.py makes tables of them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from corewise.kube.clock import SYSTEM_CLOCK
from tools.bench.table import Row, machine

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "benchmarks" / "data"
HEADLINE_FIGURES = "headlines"


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a measurement: rows as a page shows them, or samples by figure.

    ``load``: how many processes ran or waited, on average over the minute before it ended.
    """

    command: str
    machine: str
    load: float
    commit: str
    date: str
    rows: Sequence[Row] = ()
    samples: dict[str, list[float]] = {}

    @property
    def caption(self) -> str:
        """The line below a table."""
        return (
            f"`{self.command}` at {self.commit}, {self.date}: {self.machine}; load average {self.load:.1f}."
        )


def record(name: str, *, rows: Sequence[Row] = (), samples: dict[str, list[float]] | None = None) -> Record:
    """Return a result that was measured here, before this moment."""
    described = subprocess.run(
        ("git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return Record(
        f"python -m tools.bench {name}",
        machine(),
        round(os.getloadavg()[0], 1),
        described.stdout.strip() or "an unknown commit",
        f"{SYSTEM_CLOCK.now():%Y-%m-%d}",
        rows,
        samples or {},
    )


def write(name: str, result: Record) -> None:
    """Keep a result in its file, a row or the samples of a figure on each line."""
    DATA.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result), indent=1).decode()
    short = re.sub(r"[\[{]\n +[^\[\]{}]+?\n +[\]}]", lambda found: re.sub(r"\n +", " ", found[0]), text)
    (DATA / f"{name}.json").write_text(f"{short}\n")


def read(name: str) -> Record:
    """Return the result that a file has."""
    return msgspec.json.decode((DATA / f"{name}.json").read_bytes(), type=Record)

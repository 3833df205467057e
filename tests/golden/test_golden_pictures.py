"""The drawings of the docs are what the commands draw today; ``make golden`` writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from click.testing import CliRunner

import machine_trees
from corewise.cli import corewise
from golden.transcripts import INPUTS, REWRITE

DOCS = Path(__file__).parents[2] / "docs"
GUESTS = {
    "database": (8, {"hw:cpu_policy": "dedicated"}),
    "router": (2, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}),
    "realtime": (4, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-1"}),
}
"""Guest -> its virtual CPUs and its extra specs."""


def drawn(*arguments: str) -> str:
    result = CliRunner().invoke(corewise, list(arguments))
    assert result.exit_code == 0, result.stderr
    return result.stdout


def same(picture: Path, drawing: str) -> None:
    if os.environ.get(REWRITE) == "write":
        picture.write_text(drawing)
    assert picture.read_text() == drawing, "run: make golden"


def test_picture_of_who_holds_which_cpu_is_current(tmp_path: Path) -> None:
    given = INPUTS / "compute"
    host = ["--topology", str(given / "topology.json"), "--config", str(given / "nova.conf"), "--host", "n1"]
    host += ["--ledger", str(tmp_path / "ledger.json")]
    for guest, (vcpus, specs) in GUESTS.items():
        flavor = {"name": guest, "vcpus": vcpus, "ram": 1024, "disk": 0, "extra_specs": specs}
        (tmp_path / "flavor.json").write_text(json.dumps(flavor))
        drawn("compute", "pin", *host, "--flavor", str(tmp_path / "flavor.json"), "--guest", guest)
    same(DOCS / "pictures" / "status.svg", drawn("compute", "status", *host, "-o", "svg"))


def test_the_picture_of_a_machine_is_current(tmp_path: Path) -> None:
    machine_trees.offline(tmp_path)
    same(DOCS / "guides" / "topology.svg", drawn("topology", "--root", str(tmp_path), "-o", "svg"))

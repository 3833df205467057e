"""The guide to scenarios shows what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise_lab.cli.up import make_plan
from simulation.test_dump import load, node

ROOT = Path(__file__).parents[2]


def test_page_shows_the_template_file_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nfd = "feature.node.kubernetes.io/cpu-"
    genoa = {f"{nfd}model.vendor_id": "AMD", f"{nfd}model.family": "25", f"{nfd}model.id": "17"}
    sizes = {
        "ip-10-0-1-11": "m5.large",
        "ip-10-0-1-12": "m5.2xlarge",
        **{f"n{i}": "m6i.large" for i in range(5)},
    }
    load(
        Path(),
        *(node(name, labels={"node.kubernetes.io/instance-type": size}) for name, size in sizes.items()),
        node("metal-1", labels={**genoa, f"{nfd}hardware_multithreading": "true"}),
    )
    plan = make_plan(None, "builtin", Path("dump.json"), None)
    shown = "\n".join(f"    {line}" for line in plan.advice)
    assert f"\n\n{shown}\n\n" in (ROOT / "docs" / "guides" / "scenarios.md").read_text()

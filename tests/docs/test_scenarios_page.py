"""The guide to scenarios shows what the commands print, and states the figures of the outage."""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise_lab.cli.up import make_plan
from corewise_lab.outage import NODES, STREAMS, Phases
from simulation.test_dump import load, node

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "scenarios.md"


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
    assert f"\n\n{shown}\n\n" in PAGE.read_text()


def test_page_states_pods_and_phases_of_the_outage() -> None:
    page = " ".join(PAGE.read_text().split())
    plain, owner = STREAMS
    come = "comes every {0.period:g} s and runs for {0.life:g} s".format
    assert f"a plain pod of {plain.cpu_milli}m {come(plain)}" in page
    assert f"a pod that owns {owner.cpu_milli // 1000} CPUs {come(owner)}" in page
    times = Phases()
    lasts = f"the phases last {times.before:g}, {times.away:g} and {times.after:g} s, on {NODES} nodes"
    assert lasts in page

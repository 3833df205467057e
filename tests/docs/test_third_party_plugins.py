"""A third-party plugin, as docs/guides/scheduling-plugins.md shows it: installed beside corewise and found.

extender         filters and scores
binding          refuses a node that the plugin filters
explain pod      says what the plugin refuses
wrong packages   an error that names the entry point, before anything is decided
"""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.engine import Allocation, assemble
from corewise.engine.assembly import BUILT_IN, kube_scheduler
from corewise.scheduler.plugins import GROUP, PluginError, load_plugins
from engine.interference_scenes import Scene
from manager.world import PODS_NAMESPACE
from scheduler.program_world import (
    PLAIN_NODES,
    PLAIN_PODS,
    NotBoundError,
    SchedulerWorld,
    caller,
    pod_document,
    scheduler_world,
)

DOCUMENT = Path(__file__).parents[2] / "docs/guides/scheduling-plugins.md"
world = pytest.fixture(scheduler_world, name="world")


def documented() -> str:
    """The plugin as docs/guides/scheduling-plugins.md prints it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = text.partition("`prefer_ssd.py`, complete:\n")[2].partition("\nA plugin sees")[0]
    return textwrap.dedent(lines)


def install(root: Path, monkeypatch: pytest.MonkeyPatch, source: str, value: str = "") -> None:
    """Install a package of one module beside corewise, as pip does."""
    (root / "prefer_ssd.py").write_text(source, encoding="utf-8")
    info = root / "prefer_ssd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: prefer-ssd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nprefer-ssd = {value or 'prefer_ssd:PreferSSD'}\n")
    monkeypatch.syspath_prepend(root)
    monkeypatch.delitem(sys.modules, "prefer_ssd", raising=False)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "site"
    root.mkdir()
    install(root, monkeypatch, documented())


@pytest.fixture
async def nodes(world: SchedulerWorld) -> None:
    """Two nodes that are alike; the first has an SSD."""
    await world.add_node("fast", 8)
    await world.add_node("slow", 8)
    await world.client.patch(PLAIN_NODES, "fast", {"metadata": {"labels": {"disk": "ssd"}}})


async def add_pod(world: SchedulerWorld, name: str, *, ssd: bool) -> dict[str, Any]:
    document = pod_document(name)
    document["metadata"]["labels"] = {"disk": "ssd"} if ssd else {}
    return await world.client.create(PLAIN_PODS, document, PODS_NAMESPACE)


def arguments(pod: dict[str, Any]) -> dict[str, Any]:
    return {"Pod": pod, "Nodes": None, "NodeNames": ["fast", "slow"]}


@pytest.mark.usefixtures("installed", "nodes")
async def test_extender_filters_scores_and_binds_by_the_plugin(world: SchedulerWorld) -> None:
    needs, other = await add_pod(world, "needs", ssd=True), await add_pod(world, "other", ssd=False)
    async with world.scheduler() as scheduler, caller(scheduler) as call:
        _, answer = await call("filter", arguments(needs))
        assert answer["NodeNames"] == ["fast"]
        assert answer["FailedAndUnresolvableNodes"] == {"slow": "node has no SSD"}
        _, answer = await call("filter", arguments(other))
        assert answer["NodeNames"] == ["fast", "slow"]
        _, scores = await call("prioritize", arguments(other))
        score = {each["Host"]: each["Score"] for each in scores}
        assert score == {"slow": 10, "fast": 0}

        with pytest.raises(NotBoundError, match="node slow does not suit the pod: node has no SSD"):
            await world.bind("needs", "slow")
        await world.bind("needs", "fast")


@pytest.mark.usefixtures("installed", "nodes")
async def test_explain_says_what_it_refuses(world: SchedulerWorld, tmp_path: Path) -> None:
    world.server.write_kubeconfig(tmp_path / "user")
    await add_pod(world, "needs", ssd=True)
    called = ["pod", "apps/needs", "--kubeconfig", str(tmp_path / "user")]
    text = (await asyncio.to_thread(CliRunner().invoke, corewise, ["explain", *called])).stdout
    assert "slow           PreferSSD: node has no SSD (PluginRefused)" in text


@pytest.mark.parametrize(
    ("source", "value", "why"),
    [
        ("", "prefer_ssd:PreferSSD", "cannot be loaded: module 'prefer_ssd' has no attribute 'PreferSSD'"),
        ("import no_such_module_here", "", "cannot be loaded: No module named 'no_such_module_here'"),
        ("class PreferSSD: ...", "", "has no name"),
        ("class PreferSSD: name = 'x'", "", "has none of the methods filter, score, reserve and account"),
        (
            "class PreferSSD:\n    name = 'AmplifiedCPU'\n    filter = print",
            "",
            "there is another plugin with the name AmplifiedCPU",
        ),
        (
            "class PreferSSD:\n    name = 'x'\n    filter = score = print",
            "",
            "has the method score, but no weight",
        ),
    ],
)
def test_error_names_the_package_that_is_no_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, value: str, why: str
) -> None:
    install(tmp_path, monkeypatch, source, value)
    with pytest.raises(PluginError, match=r"^scheduling plugin prefer-ssd \(prefer_ssd:PreferSSD\)") as found:
        load_plugins()
    assert why in str(found.value)
    dump = tmp_path / "dump.json"
    dump.write_text('{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n"}}]}')
    result = CliRunner().invoke(corewise, ["plan", "--from", str(dump)])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == ExitCode.USAGE
    assert why in str(result.exception)


def test_every_corewise_plugin_has_a_reserved_name() -> None:
    for allocation in Allocation:
        for engine in (
            assemble(allocation, interference=Scene().plugin, kube_checks=True),
            kube_scheduler(),
        ):
            plugins = (*engine.filters, *engine.scores, *engine.reserves, *engine.accounts)
            assert {each.name for each in plugins} <= BUILT_IN
    assert load_plugins() == ()

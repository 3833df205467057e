"""The screens of ``corewise top`` on terminals of three sizes: tables, filter, explanations, messages, help.

Those of the smallest are kept word for word; larger ones show the same columns and lines, and maybe more.
The picture of the documents is one of them, drawn. ``make golden`` writes screens and picture.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from textual.pilot import Pilot

from cli.offline_world import CALM, REPORT, changed, labeled
from cli.top_screen import HandmadeData, StoppedClock, node, on_screen, pod, text_of
from corewise.cli.top_app import TopApp
from corewise.kube.config import load_config
from corewise.views.offline_table import BARS
from corewise.views.top_data import following
from corewise.vocabulary.names import CONFIG_NAMESPACE, NORMALIZATION_RATIO
from golden.cluster import running_cluster
from golden.transcripts import EXPECTED, INPUTS, REWRITE, compare, lost
from tools import picture

SIZES = [(80, 24), (120, 40), (200, 50)]
KEPT = "top/80x24"
BY_A_COLUMN = "nodes, by the column to the right of NODE, in reverse"
"""Which column that is depends on the width, and with it the order of the nodes."""
SCREENS = {
    "nodes, as it begins": ("", "8 nodes, by NODE", "Quit"),
    BY_A_COLUMN: ("> r", "in reverse by", "Quit"),
    "a filter is typed": ("/ f a s", "1 of 8 nodes with 'fas'", "esc All"),
    "a node explained": ("enter enter", "fast: normalization ratio", "Back"),
    "pods": ("q escape 2", "6 pods, by POD", "Quit"),
    "a pod explained": ("end up up enter", "default/p: on node fast", "Back"),
    "offline pods": ("q 3", "3 nodes, by NODE", "Quit"),
    "offline pods of a node explained": ("enter", "calm: offers", "Back"),
    "messages": ("q m", "report that cannot be read: strange", "Back"),
    "help": ("q question_mark", "Nodes, pods, and what", "Back"),
}
"""The keys that lead from each screen to the next, and two texts that are there when it is complete."""
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "top.svg"
WITHIN = 60.0


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    objects = INPUTS / "clusters" / "looked-at.json"
    with running_cluster(tmp_path_factory.mktemp("cluster"), objects) as cluster:
        yield cluster.kubeconfig


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_screen_is_what_it_was_or_wider(kubeconfig: Path, size: tuple[int, int]) -> None:
    seen = {}
    settings = {"selector": "", "config_namespace": CONFIG_NAMESPACE, "bars": BARS}
    async with following(load_config(str(kubeconfig)), "nodes", **settings) as (data, follow):
        app = TopApp(data, "nodes", 3600.0, follow, StoppedClock())
        async with on_screen(app, size) as pilot:
            for title, (keys, *complete) in SCREENS.items():
                await pilot.press(*keys.split())
                await until_shown(pilot, complete)
                seen[title] = text_of(app)
    assert max(len(line) for text in seen.values() for line in text.splitlines()) <= size[0]
    if size == SIZES[0]:
        compare(KEPT, "\n".join(f"=== {title}\n\n{text}\n" for title, text in seen.items()))
    for kept in re.split("^=== ", (EXPECTED / f"{KEPT}.txt").read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = kept.partition("\n")
        assert title == BY_A_COLUMN or not lost(text, seen[title]), title


async def until_shown(pilot: Pilot[None], texts: list[str]) -> None:
    """Wait until texts are on the screen, and it does not change any more."""
    app, before = pilot.app, ""
    assert isinstance(app, TopApp)
    async with asyncio.timeout(WITHIN):
        while before != (before := text_of(app)) or not all(text in before for text in texts):
            await pilot.pause(0.1)


def cluster_of_the_picture() -> HandmadeData:
    """Return a cluster of three kinds of machines, whose online work squeezes offline pods on one node."""
    squeezed = changed(
        REPORT, online=[3_000, 3_500, 4_000, 4_000, 6_000, 8_000, 9_000, 10_000, 10_000, 10_000]
    )
    reports = {
        "milan-0": CALM,
        "milan-1": squeezed,
        "genoa-0": changed(CALM, online_milli=4_120, offered_milli=6_230, online=[3_900, 4_200] * 5),
        "genoa-1": changed(CALM, online_milli=6_640, online=[5_000, 6_000, 6_500, 7_000, 6_600] * 2),
    }
    ratios = {"milan": "1.25", "genoa": "1.50"}
    nodes = []
    for name, report in reports.items():
        meta = labeled(report)
        meta["annotations"][NORMALIZATION_RATIO] = ratios[name.partition("-")[0]]
        nodes.append(node(name, 16, **meta))
    return HandmadeData(
        [*nodes, node("skylake-0", 16)], [pod("web", "milan-0", "6"), pod("db", "genoa-0", "2")]
    )


async def test_documented_picture_matches_the_screen() -> None:
    app = cluster_of_the_picture().app("offline")
    async with on_screen(app, (120, 14)) as pilot:
        await pilot.press("down")
        await pilot.pause()
        console = Console(record=True, width=120, height=14, file=io.StringIO(), legacy_windows=False)
        console.print(app.screen._compositor.render_update(full=True))
        drawn = picture.export(console)
    if os.environ.get(REWRITE) == "write":
        PICTURE.write_text(drawn)
    assert PICTURE.read_text() == drawn, "run: make golden"

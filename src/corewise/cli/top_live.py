"""The live screen of ``corewise top``: follows the Nodes, and leaves the terminal as it was.

The table is drawn on the terminal's second screen, when a Node changes (at most four times a second) and
every two seconds, since ages grow. Ctrl-C and SIGTERM end it, as does whatever goes wrong; in every case the
first screen comes back, with its cursor. While the API server is away the last picture stays, with what is
wrong below.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from textwrap import wrap

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from corewise.cli import output
from corewise.cli.output import Screen
from corewise.cli.top_view import REPORTING_NODES, TopView, remarks
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import ClusterConfig
from corewise.kube.objects import PartialObject
from corewise.service.program import on_stop_signals

EVERY = 2.0
SHORTEST_PAUSE = 0.25
_FEWEST_LINES = 3


async def follow(cluster: ClusterConfig, view: TopView) -> None:
    """Draw until told to end.

    Raises:
        KubeError: if the nodes cannot be listed at first.
    """
    # What the cache says about a lost connection is on the screen; a line of log would tear it.
    logging.getLogger("corewise").addHandler(logging.NullHandler())
    wake, ended = asyncio.Event(), asyncio.Event()

    def end() -> None:
        ended.set()
        wake.set()

    on_stop_signals(end)
    async with Client(cluster, on_warning=None) as client:
        await client.list(REPORTING_NODES, label_selector=view.selector)
        cache = Cache(
            client, REPORTING_NODES, label_selector=view.selector, on_change=lambda _old, _new: wake.set()
        )
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(cache.run())
            await _draw(cache, view, wake, ended)
            follower.cancel()


async def _draw(
    cache: Cache[PartialObject], view: TopView, wake: asyncio.Event, ended: asyncio.Event
) -> None:
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not ended.is_set():
            wake.clear()
            if cache.synced.is_set():
                live.update(picture(cache, view, console), refresh=True)
            await asyncio.sleep(SHORTEST_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY - SHORTEST_PAUSE):
                    await wake.wait()


def picture(cache: Cache[PartialObject], view: TopView, console: Console) -> Group:
    """Return what fits on the console of the nodes in the cache, and what is to be said about them."""
    now = SYSTEM_CLOCK.now()
    reports = view.reports(cache.items.values(), now)
    table = output.render(
        view.listing(reports),
        view.form,
        screen=Screen(console.width, colour=True),
        summary_first=True,
    ).splitlines()
    said = list(remarks(reports, view.config_namespace))
    if cache.last_error is not None:
        said.insert(0, f"The API server does not answer, this is the last known: {cache.last_error.message}")
    below = [part for line in said for part in wrap(line, console.width)]
    head = f"corewise top   {now:%H:%M:%S} UTC   Ctrl-C ends"
    # Titles, the sum and the nodes; below them what the table leaves out of its columns.
    nodes = 2 + sum(report.report is not None for report in reports)
    below = [*below, *table[nodes:]]
    lines = [head, "", *fitted(table[:nodes], console.height - len(below) - 3), "", *below]
    return Group(*(_line(line, console.width) for line in lines[: console.height]))


def fitted(table: Sequence[str], height: int) -> Iterable[str]:
    """Return a table's lines, or as many as fit and how many are left out."""
    height = max(height, _FEWEST_LINES)
    if len(table) <= height:
        return table
    kept = table[: height - 1]
    return [*kept, f"{output.count(len(table) - len(kept), 'node')} more (-l chooses, --sort orders)"]


def _line(text: str, width: int) -> Text:
    line = Text.from_ansi(text, no_wrap=True, overflow="crop")
    line.truncate(width)
    return line

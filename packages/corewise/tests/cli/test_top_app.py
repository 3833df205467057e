"""``corewise top`` as an application: what keys and the mouse do, and what stays while data change."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from cli.offline_world import CALM, NOW, REPORT, changed, labeled
from cli.top_screen import HandmadeData, lines_of, node, on_screen, pod, text_of
from corewise.cli.top_app import TextScreen, TopApp
from corewise.cli.top_table import RowTable
from corewise.kube.client import Client
from corewise.kube.config import ClusterConfig, load_config
from corewise.kube.errors import Forbidden, Status
from corewise.kube.resources import NODES
from corewise.views.explanation import Explanation, Line, Part
from corewise.views.node_explanation import read_node
from corewise.views.offline_table import PLAIN
from corewise.views.tables import Column
from corewise.views.top_data import following
from corewise.vocabulary.names import CONFIG_NAMESPACE
from corewise.vocabulary.offline_report import OfferState
from kubedouble.server import serve

SMALL, WIDE = (80, 24), (240, 50)
DEADLINE = 60.0
THREE = [node("a", 4), node("b", 16), node("c", 8)]


def names(app: TopApp) -> list[str]:
    return [row.name for row in app.current.sheet.shown]


def chosen(app: TopApp) -> str:
    row = app.current.sheet.chosen
    return row.name if row else ""


async def until_shown(pilot: Pilot[None], text: str) -> None:
    """Wait until a text is on the screen."""
    assert isinstance(pilot.app, TopApp)
    async with asyncio.timeout(DEADLINE):
        while text not in text_of(pilot.app):
            await pilot.pause(0.05)


async def until_gone(pilot: Pilot[None], text: str) -> None:
    """Wait until a text is not on the screen."""
    assert isinstance(pilot.app, TopApp)
    async with asyncio.timeout(DEADLINE):
        while text in text_of(pilot.app):
            await pilot.pause(0.05)


async def test_keys_and_a_click_change_the_table() -> None:
    app = HandmadeData(THREE, [pod("web", "a")]).app()
    async with on_screen(app, SMALL) as pilot:
        assert names(app) == ["a", "b", "c"]
        await pilot.press("2")
        assert names(app) == ["default/web"]
        await pilot.press("3")
        assert names(app) == []
        await pilot.click(offset=(3, 0))
        assert names(app) == ["a", "b", "c"]


async def test_figures_sort_largest_first_and_r_reverses() -> None:
    app = HandmadeData(THREE).app()
    async with on_screen(app, (120, 24)) as pilot:
        await pilot.press(">", ">")
        assert names(app) == ["b", "c", "a"]
        assert "by RAW CPU" in text_of(app)
        await pilot.press("r")
        assert names(app) == ["a", "c", "b"]
        assert "in reverse by RAW CPU" in text_of(app)
        await pilot.press("<", "<", "r")
        assert names(app) == ["c", "b", "a"]


async def test_clicking_a_title_sorts_and_clicking_again_reverses() -> None:
    app = HandmadeData(THREE).app()
    async with on_screen(app, SMALL) as pilot:
        at = lines_of(app)[1].index("SCHEDULABLE")
        await pilot.click(RowTable, offset=(at + 2, 0))
        assert names(app) == ["b", "c", "a"]
        await pilot.click(RowTable, offset=(at + 2, 0))
        assert names(app) == ["a", "c", "b"]


def test_unknown_figures_are_last_in_either_order() -> None:
    figures: dict[str, int | None] = {"a": 1, "none": None, "b": 2}
    column: Column[str] = Column("X", str, figure=lambda row: figures[row])
    assert column.in_order(figures) == ["b", "a", "none"]
    assert column.in_order(figures, reverse=True) == ["a", "b", "none"]


async def test_filter_applies_while_typed_and_sums_shown_rows() -> None:
    app = HandmadeData([node("alpha", 4), node("beta", 16), node("alpine", 8)]).app()
    async with on_screen(app, SMALL) as pilot:
        await pilot.press("/", "A", "l")
        assert names(app) == ["alpha", "alpine"]
        assert lines_of(app)[2].split()[:4] == ["*", "0", "models", "12"]
        await pilot.press("q", "1")
        assert names(app) == []
        await pilot.press("backspace", "backspace", "enter")
        assert names(app) == ["alpha", "alpine"]
        assert "2 of 3 nodes with 'Al'" in text_of(app)
        await pilot.press("escape")
        assert names(app) == ["alpha", "alpine", "beta"]


async def test_cursor_stays_on_its_row_while_data_change() -> None:
    data = HandmadeData([node(f"n{number:02}") for number in range(40)])
    app = data.app()
    async with on_screen(app, SMALL) as pilot:
        await pilot.press("end")
        assert chosen(app) == "n39"
        before = next(at for at, line in enumerate(lines_of(app)) if line.startswith("n39"))
        data.put(*(node(f"a{number}") for number in range(7)))
        data.put(node("n39", 4))
        app.take()
        await pilot.pause()
        assert chosen(app) == "n39"
        assert lines_of(app)[before].startswith("n39")
        data.remove("n39")
        app.take()
        assert chosen(app) == "n38"


async def test_row_leaving_a_sorted_table_takes_cursor_along() -> None:
    data = HandmadeData(THREE)
    app = data.app()
    async with on_screen(app, (120, 24)) as pilot:
        await pilot.press(">", ">", "home", "down")
        assert (names(app), chosen(app)) == (["b", "c", "a"], "c")
        data.put(node("c", 64))
        app.take()
        assert (names(app), chosen(app)) == (["c", "b", "a"], "c")


async def test_wider_terminal_shows_more_columns_and_nothing_wraps() -> None:
    app = HandmadeData(THREE).app()
    async with on_screen(app, SMALL) as pilot:
        assert "NORMALIZED" not in text_of(app)
        assert "columns left out (Enter shows all)" in text_of(app)
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert "REQUESTED MEM GiB" in text_of(app)
        assert "left out" not in text_of(app)
        await pilot.resize_terminal(*SMALL)
        await pilot.pause()
        assert "NORMALIZED" not in text_of(app)
        assert max(map(len, lines_of(app))) <= 80


async def test_model_is_shortened_not_dropped_at_120_columns() -> None:
    model = "Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"
    data = HandmadeData([node("ip-10-0-23-114", 96, **labeled(REPORT))])
    data.put_facts("ip-10-0-23-114", model)
    app = data.app()
    async with on_screen(app, (120, 24)) as pilot:
        head, _, row = lines_of(app)[1:4]
        assert "Xeon 8369B" in row
        assert "13.0 (13%)" in row
        assert {"MODEL", "USED", "LATELY"} <= set(head.split())
        await pilot.resize_terminal(300, 24)
        await pilot.pause()
        assert model in text_of(app)


async def test_usage_changes_a_row_without_assessing_its_node() -> None:
    data = HandmadeData(THREE)
    app = data.app()
    async with on_screen(app, (120, 24)) as pilot:
        built = data.built
        data.usages.take({"a": 3_000, "b": 4_000})
        app.take()
        await pilot.pause()
        assert "3.00 (75%)" in text_of(app)
        assert data.built == built


async def test_cursor_stays_visible_after_the_screen_shrinks() -> None:
    app = HandmadeData([node(f"n{number:02}") for number in range(40)]).app()
    async with on_screen(app, WIDE) as pilot:
        await pilot.press("end")
        await pilot.resize_terminal(*SMALL)
        await pilot.pause()
        assert any(line.startswith("n39") for line in lines_of(app))


async def test_the_mouse_chooses_scrolls_and_opens() -> None:
    app = HandmadeData([node(f"n{number:02}") for number in range(40)]).app()
    async with on_screen(app, SMALL) as pilot:
        await pilot.click(RowTable, offset=(2, 5))
        assert chosen(app) == "n03"
        app.current.scroll_down(animate=False)
        await pilot.pause()
        assert lines_of(app)[3].startswith("n01")
        await pilot.click(RowTable, offset=(2, 5), times=2)
        assert chosen(app) == "n04"
        assert isinstance(app.screen, TextScreen)


async def test_enter_explains_row_q_goes_back_then_quits() -> None:
    data = HandmadeData(THREE)

    async def explain(name: str) -> tuple[Explanation, list[str]]:
        return Explanation(f"why {name}", [Part({}, [Line("because", "x")])]), ["events: you may not read it"]

    data.tables = {**data.tables, "nodes": replace(data.tables["nodes"], explain=explain)}
    app = data.app()
    async with on_screen(app, SMALL) as pilot:
        await pilot.press("down", "enter")
        await until_shown(pilot, "why b")
        assert "events: you may not read it" in text_of(app)
        assert "corewise explain node b" in text_of(app)
        assert any(line.split() == ["RAW", "CPU", "16"] for line in lines_of(app))
        await pilot.press("2", "q")
        assert names(app) == ["a", "b", "c"]
        await pilot.press("q")
    assert app.return_code == 0


async def test_slow_api_server_freezes_nothing_and_back_cancels() -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.readuntil(b"\r\n\r\n")
        await reader.read()  # ends with the connection
        given_up.set()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1") as server:
        host, port = server.sockets[0].getsockname()
        slow = ClusterConfig(server=f"http://{host}:{port}")
        data = HandmadeData(THREE)
        explain = partial(read_node, Client(slow), config_namespace=CONFIG_NAMESPACE, now=NOW)
        data.tables = {**data.tables, "nodes": replace(data.tables["nodes"], explain=explain)}
        app = data.app()
        async with asyncio.timeout(DEADLINE), on_screen(app, SMALL) as pilot:
            await pilot.press("enter")
            await until_shown(pilot, "Reading the cluster ...")
            await asked.wait()
            assert "All columns:" in text_of(app)
            await pilot.press("q", "r")
            assert names(app) == ["c", "b", "a"]
            await given_up.wait()


async def test_unexplainable_row_is_reported_with_what_to_do(tmp_path: Path) -> None:
    app = HandmadeData(THREE).app()  # of a server that does not answer
    async with on_screen(app, SMALL) as pilot:
        await pilot.press("enter")
        await until_shown(pilot, "is the API server up")


async def test_markup_in_names_is_literal_control_characters_hidden() -> None:
    strange = "[red]x[/red]"
    app = HandmadeData([node("[bold]n", 8), node("b\x1b[31m")], [pod(strange)]).app()
    async with on_screen(app, SMALL) as pilot:
        assert any(line.startswith("[bold]n ") for line in lines_of(app))
        assert any(line.startswith("b?[31m ") for line in lines_of(app))
        await pilot.press("2")
        assert any(line.startswith(f"default/{strange} ") for line in lines_of(app))
        await pilot.press("/", "left_square_bracket", "r", "enter", "enter")
        await until_shown(pilot, f"corewise explain pod default/{strange}")
        await pilot.press("q", "m", "q", "?", "q")
        assert names(app) == [f"default/{strange}"]


async def test_nodes_offline_pods_show_severity_age_and_messages() -> None:
    data = HandmadeData([node("n1", **labeled(REPORT)), node("n2", **labeled(CALM)), node("off")])
    app = data.app("offline")
    async with on_screen(app, (160, 24)) as pilot:
        assert names(app) == ["n1", "n2"]
        assert "12s" in text_of(app)
        data.put(node("n2", **labeled(changed(CALM, time="2026-11-21T01:00:00Z"))))
        app.take()
        await pilot.pause()
        assert "2h OLD" in text_of(app)
        assert "(m: 2 messages) 1 node has old data" in text_of(app)
        await pilot.press("m")
        assert "1 node not shown: oversubscription is off." in text_of(app)


async def test_lost_connection_is_reported_and_last_data_stay(tmp_path: Path) -> None:
    kubeconfig, state = tmp_path / "kubeconfig", str(tmp_path / "state")
    settings = {"selector": "", "config_namespace": "corewise-system", "bars": PLAIN}
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        server = await first.enter_async_context(serve(listen="127.0.0.1:0", state_dir=state, name="c"))
        server.write_kubeconfig(str(kubeconfig))
        cluster = load_config(str(kubeconfig))
        async with Client(cluster) as client:
            await client.create(NODES, {"metadata": {"name": "n1"}})
        async with following(cluster, "nodes", **settings) as (data, follow):
            app = TopApp(data, "nodes", 0.05, follow)
            async with app.run_test(size=SMALL) as pilot:
                await until_shown(pilot, "1 node, by NODE")
                assert "STALE" not in text_of(app)
                await first.aclose()
                await until_shown(pilot, "STALE: the API server last answered")
                assert names(app) == ["n1"]
                address = server.url.removeprefix("https://")
                await second.enter_async_context(serve(listen=address, state_dir=state, name="c"))
                async with Client(cluster) as client:
                    await client.create(NODES, {"metadata": {"name": "n2"}})
                await until_shown(pilot, "2 nodes, by NODE")
                await until_gone(pilot, "STALE")


async def test_forbidden_read_is_a_message_not_lost_connection() -> None:
    data = HandmadeData(THREE)
    data.nodes.last_error = Forbidden(Status(code=403, reason="Forbidden"))
    app = data.app()
    async with on_screen(app, SMALL):
        assert "nodes: you may not read it" in text_of(app)
        assert "STALE" not in text_of(app)


async def test_change_among_5000_nodes_redraws_only_what_changed() -> None:
    data = HandmadeData([node(f"n{number:04}", **labeled(CALM)) for number in range(5000)])
    app = data.app()
    async with on_screen(app, SMALL) as pilot:
        sheet, table = app.current.sheet, app.current
        assert data.built == 5000
        made = sheet.made
        app.take()
        await pilot.pause()
        assert data.built == 5000
        assert sheet.made - made <= 3, "the sum alone is new"
        data.put(node("n0003", 64))
        made, drawn = sheet.made, table.drawn
        app.take()
        await pilot.pause()
        assert data.built == 5001
        assert sheet.made - made <= 4
        assert table.drawn - drawn <= 3 * 24
        drawn = table.drawn
        await pilot.press("down")
        await pilot.press("pagedown")
        assert table.drawn - drawn <= 4 * 24, "lines of the screen alone, not of the table"


@pytest.mark.parametrize(("no_color", "colored"), [("", True), ("1", False)])
async def test_color_marks_severity_and_no_color_removes_it(
    monkeypatch: pytest.MonkeyPatch, no_color: str, colored: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    app = HandmadeData([node("n1", **labeled(changed(CALM, state=OfferState.FROZEN)))]).app()
    async with on_screen(app, SMALL):
        colors = {
            segment.style.color.name
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style and segment.style.color and not segment.style.color.is_default
        }
    assert colors == ({"red"} if colored else set())


def test_textual_is_imported_only_for_the_screen() -> None:
    program = (
        "import sys, corewise.cli.top, corewise.views.top_data; "
        "sys.exit(any(name.partition('.')[0] == 'textual' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_help_needs_no_http_client_and_no_numpy() -> None:
    program = (
        "import sys, corewise.cli.top; sys.exit(bool({'numpy', 'aiohttp', 'textual'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

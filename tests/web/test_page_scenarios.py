"""Each scenario of ``corewise up`` on its page: every number is the one that the commands print with -o json.

The objects are recorded (scenario_world.py), so that the page and the commands look at the same moment; one
scenario runs, and its page follows it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec import convert
from playwright.sync_api import Browser, Page, expect

from corewise.cli import corewise
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import PODS
from corewise.views import node_table, pod_table
from corewise.views.node_listing import NodeState
from corewise.views.node_table import Facts, NodeRow, SummedAmounts
from corewise.views.offline_table import PLAIN, Details, Sums, TopRow, columns
from corewise.views.pod_table import PodAmounts, PodRow
from corewise.views.tables import Column
from corewise.views.text import count, cpus, gibibytes, measured, number, percent
from web.page_world import aside, errors_of, page_of
from web.scenario_world import SCENARIOS, recorded, running
from web.test_web_views import dump_of, pod, printed

Row = dict[str, Any]
AGREE = 40.0
"""Seconds within which both agree."""
READ = """() => {
    const text = (element) => (element?.textContent ?? "").trim().replace(/^! /, "");
    const whole = (cell) => cell.title || text(cell);
    const rows = (selector, from = document) =>
        [...from.querySelectorAll(selector)].map((row) => [...row.cells].map(whole));
    const all = (selector) => [...document.querySelectorAll(selector)];
    return {
        figures: Object.fromEntries(
            all(".figures > div").map((each) => [text(each.children[0]), text(each.children[1])])),
        head: all(".scroll thead th").map((each) => text(each).replace(/[↑↓]$/, "")),
        rows: rows(".scroll tbody:not(.total) tr:not(.gap)"),
        plain: Object.fromEntries(
            all(".plain-table").map((each) => [each.ariaLabel, rows("tbody tr", each)])),
        bars: rows(".bars tbody tr").map(([name, amount]) => [name, amount]),
        summaries: all("summary").map(text),
        pre: Object.fromEntries(all("pre").map((each) => [each.ariaLabel, each.textContent])),
        remarks: all("main > .remarks li").map(text),
        cpus: all(".machine .cpu:not(.offline)").length,
        tiles: Number(document.querySelector("canvas")?.dataset.tiles ?? 0),
    };
}"""


@dataclass(frozen=True, slots=True)
class Scene:
    """A recorded scenario: how to ask the API server, and where its page is."""

    kubeconfig: Path
    url: str

    def printed(self, command: str) -> Any:
        return aside(lambda: printed(self.kubeconfig, command))

    def text(self, command: str) -> str:
        """Return the output of a command in a terminal, with every age as "N s".

        The commands in it name the cluster; those of the page do not.
        """
        cluster = f" --kubeconfig {self.kubeconfig}"
        shown = aside(lambda: CliRunner().invoke(corewise, [*command.split(), *cluster.split()])).stdout
        return aged(shown.replace(cluster, ""))


def aged(text: str) -> str:
    return re.sub(r"\b\d+ (s|min|h)\b", "N s", text)


@pytest.fixture(scope="module", params=SCENARIOS)
def scene(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    browser: Browser,
) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp(request.param)
    with recorded(request.param, directory) as kubeconfig, page_of(kubeconfig) as url:
        yield Scene(kubeconfig, url)


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(base_url=scene.url, viewport={"width": 2600, "height": 1400})
    opened = context.new_page()
    opened.emulate_media(media="print")  # every row is in the page then, not only those that can be seen
    errors = errors_of(opened)
    yield opened
    context.close()
    assert errors == []


def agree(page: Page, path: str, wanted: Callable[[], Row], shown: Callable[[Row], Row]) -> None:
    """Open a view, and wait until it shows what is printed; ``wanted`` is asked again each time."""
    page.goto(path)
    expect(page.locator(".connection")).to_have_text("Live", timeout=20_000)
    deadline = time.monotonic() + AGREE
    while (was := shown(page.evaluate(READ))) != (want := wanted()) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert was == want, path


def part_of(row: Row, key: str, whole: str, form: Callable[[int | None], str]) -> str:
    return form(row[key]) + percent(row[key] or 0, row[whole] or 0)


def node_row(record: Row) -> NodeRow:
    facts, amounts = convert(record, Facts), convert(record, SummedAmounts)
    return NodeRow(record["name"], facts.cpu_model or "-", facts, amounts, NodeState(record["state"]))


def pod_row(record: Row) -> PodRow:
    texts = {name: record[name] or "" for name in ("name", "node", "cpus", "phase", "problem")}
    return PodRow(**texts, qos=record["qosClass"] or "", amounts=convert(record, PodAmounts))


def top_row(record: Row) -> TopRow:
    # The age goes on while the rest stands still.
    details = {**record, "ageSeconds": 0}
    return TopRow(record["name"], convert(record, Sums), convert(details, Details))


TABLES: Mapping[str, tuple[str, Sequence[Column[Any]], Callable[[Row], Any]]] = {
    # What nodes use changes while the page is read, and the page of a node draws it.
    "/": (
        "nodes --all",
        [each for each in node_table.COLUMNS if each.title not in {"USED", "LATELY"}],
        node_row,
    ),
    "/pods": ("top pods", pod_table.COLUMNS, pod_row),
    # The page of a node draws what sparklines show.
    "/offline": ("top offline", [each for each in columns(PLAIN) if "LATELY" not in each.title], top_row),
}
TOTALS: Mapping[str, Mapping[str, Callable[[Row], str]]] = {
    "/": {
        "Raw CPU": lambda row: cpus(row["rawAllocatableCPUMilli"]),
        "Normalized": lambda row: cpus(row["normalizedCPUMilli"]),
        "Schedulable": lambda row: cpus(row["schedulableCPUMilli"]),
        "Requested": lambda row: part_of(row, "requestedCPUMilli", "schedulableCPUMilli", cpus),
        "Free": lambda row: cpus(row["freeCPUMilli"]),
        "Offline offered": lambda row: measured(row["offlineOfferedCPUMilli"]),
    },
    "/pods": {
        "CPU requested": lambda row: cpus(row["requestedCPUMilli"]),
        "Memory requested, GiB": lambda row: gibibytes(row["requestedMemoryBytes"]),
        "Batch CPU, normalized": lambda row: cpus(row["batchCPUNormalizedMilli"]),
        "CPUs owned": lambda row: number(row["ownedCPUs"]),
    },
    "/offline": {
        "Raw CPU": lambda row: cpus(row["allocatableCPUMilli"]),
        "Online": lambda row: part_of(row, "onlineCPUMilli", "allocatableCPUMilli", measured),
        "Offline": lambda row: part_of(row, "offlineCPUMilli", "allocatableCPUMilli", measured),
    },
}


@pytest.mark.parametrize("path", TABLES)
def test_table_and_totals_match_what_the_command_prints(scene: Scene, page: Page, path: str) -> None:
    command, shown_columns, row_of = TABLES[path]
    titles = [column.title.upper() for column in shown_columns]

    def wanted() -> Row:
        listed = scene.printed(command)
        return {
            "head": titles,
            "rows": sorted([column.text(row_of(row)) for column in shown_columns] for row in listed["items"]),
            "figures": {name: of(listed["total"]) for name, of in TOTALS[path].items()},
            "tiles": len(listed["items"]) if path == "/" else 0,
        }

    def shown(seen: Row) -> Row:
        for row in seen["rows"] if "AGE" in titles else ():
            row[-1] = "0s STALE" if row[-1].endswith("STALE") else "0s"
        return {
            "head": [each.upper() for each in seen["head"]] or titles,
            "rows": sorted(seen["rows"]),
            "figures": {name: seen["figures"][name] for name in TOTALS[path]},
            "tiles": seen["tiles"] if path == "/" else 0,
        }

    agree(page, path, wanted, shown)


def test_a_node_is_what_nodes_and_explain_print(scene: Scene, page: Page) -> None:
    nodes = scene.printed("nodes --all")["items"]
    assert len(nodes) == 4
    for row in nodes:
        name = row["name"]

        def wanted(name: str = name) -> Row:
            (node,) = (each for each in scene.printed("nodes --all")["items"] if each["name"] == name)
            record = scene.printed(f"explain node {name}")
            report = scene.printed(f"explain suppression {name}")["report"]
            owners = [
                each for each in scene.printed("top pods")["items"] if each["node"] == name and each["cpus"]
            ]
            owned = record["requested"]["ownedCPUMilli"]
            offline = scene.printed("top offline")["items"]
            limits = [each["limitedBy"] for each in offline if each["name"] == name]
            lately = (
                {
                    "Online": part_of(report, "onlineMilli", "allocatableMilli", measured),
                    "Offline": part_of(report, "offlineMilli", "allocatableMilli", measured),
                    "Offered": measured(report["offeredMilli"]),
                    "Quota": measured((report["suppression"] or {}).get("quotaMilli")),
                    "Target": measured((report["suppression"] or {}).get("targetMilli")),
                }
                if report
                else {}
            )
            memory = part_of(node, "requestedMemoryBytes", "schedulableMemoryBytes", gibibytes)
            return {
                "figures": {
                    "Model": node["cpuModel"] or "-",
                    "Normalization ratio": node["normalizationRatio"] or "-",
                    "Amplification ratio": node["amplificationRatio"] or "-",
                    "Memory requested, GiB": memory,
                    "Offline offered": measured(node["offlineOfferedCPUMilli"]),
                    "Offline work limited by": next(iter(limits), "nothing is offered"),
                    "Native BestEffort pods": number(node["nativeBestEffortPods"]),
                    "State": node["state"] or "settled",
                    **lately,
                },
                "bars": [
                    ["Raw capacity", cpus(node["rawCapacityCPUMilli"])],
                    ["Raw allocatable", cpus(node["rawAllocatableCPUMilli"])],
                    ["Normalized", cpus(node["normalizedCPUMilli"])],
                    ["Schedulable", cpus(node["schedulableCPUMilli"])],
                    *([["Owned", cpus(owned)]] if owned else []),
                    ["Requested", cpus(node["requestedCPUMilli"])],
                    ["Free", cpus(node["freeCPUMilli"])],
                ],
                "owners": sorted((each["name"], each["cpus"], number(each["ownedCPUs"])) for each in owners),
                "cpus": node["rawCapacityCPUMilli"] // 1000,
                "ratios": scene.text(f"explain node {name}"),
                "suppression": scene.text(f"explain suppression {name}"),
            }

        def shown(seen: Row) -> Row:
            return {
                **{key: seen[key] for key in ("figures", "bars", "cpus")},
                "owners": sorted(tuple(row[1:4]) for row in seen["plain"].get("Owners of CPUs", ())),
                "ratios": aged(seen["pre"]["Ratios"]),
                "suppression": aged(seen["pre"]["Offer and suppression"]),
            }

        agree(page, f"/nodes/{name}", wanted, shown)


def test_a_pod_is_what_top_and_explain_print(scene: Scene, page: Page) -> None:
    listed = scene.printed("top pods")["items"]
    kinds = {(row["node"] is None, row["qosClass"], bool(row["cpus"])): row["name"] for row in listed}
    for name in kinds.values():

        def wanted(name: str = name) -> Row:
            (row,) = (each for each in scene.printed("top pods")["items"] if each["name"] == name)
            why = scene.printed(f"explain pod {name}")
            return {
                "figures": {
                    "Node": row["node"] or "none",
                    "Class": row["qosClass"] or "-",
                    "State": row["problem"] or row["phase"],
                    "CPU requested": cpus(row["requestedCPUMilli"] or None),
                    "Memory requested, GiB": gibibytes(row["requestedMemoryBytes"] or None),
                    "Batch CPU, normalized": cpus(row["batchCPUNormalizedMilli"] or None),
                    "CPUs owned": row["cpus"] or "-",
                    "Used, raw CPUs": "-",
                },
                "summaries": [
                    f"{count(each['nodes'], 'node')}: {each['summary']} ({each['reason']})"
                    for each in why["refusals"]
                ],
                "suiting": sorted(
                    [each["node"], number(each["total"])] for each in why["nodes"] if each["suits"]
                ),
                "refused": {each["summary"]: each["nodes"] for each in why["refusals"]},
                "explanation": scene.text(f"explain pod {name}"),
            }

        def shown(seen: Row) -> Row:
            refused = "Nodes refused: "
            return {
                **{key: seen[key] for key in ("figures", "summaries")},
                "suiting": sorted(seen["plain"].get("Nodes that suit, the best first", ())),
                "refused": {
                    key.removeprefix(refused): len(rows)
                    for key, rows in seen["plain"].items()
                    if key.startswith(refused)
                },
                "explanation": aged(seen["pre"]["Explanation"]),
            }

        agree(page, f"/pods/{name}", wanted, shown)


def test_problems_are_those_that_explain_and_top_print(scene: Scene, page: Page) -> None:
    def wanted() -> Row:
        pods = [each for each in scene.printed("top pods")["items"] if each["problem"]]
        found = [(each["problem"], each["name"]) for each in pods]
        for row in scene.printed("nodes --all")["items"]:
            for kind in ("node", "suppression"):
                problems = scene.printed(f"explain {kind} {row['name']}")["problems"]
                found += [(each["reason"], row["name"]) for each in problems]
        return {"found": sorted(found)}

    def shown(seen: Row) -> Row:
        tables = seen["plain"].items()
        found = [(reason, row) for reason, rows in tables for row in rows]
        return {
            "found": sorted(
                (reason, row[0])
                for reason, row in found
                if not any(cell.startswith("over for") for cell in row)
            )
        }

    agree(page, "/problems", wanted, shown)


def test_tried_change_matches_what_plan_prints(scene: Scene, page: Page, tmp_path: Path) -> None:
    row = scene.printed("nodes --all")["items"][0]
    page.goto("/what-if?change=model")
    page.get_by_label("CPU model").fill(row["cpuModel"])
    kinds = ("baseRatio", "turboEnabledRatio", "hyperThreadEnabledRatio", "hyperThreadTurboEnabledRatio")
    page.locator("select[name=field]").select_option(
        kinds[2 * bool(row["hyperThreading"]) + bool(row["turbo"])]
    )
    page.get_by_label("Ratio (empty").fill("1.30")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("All pods placed again")).to_be_visible(timeout=60_000)
    seen = page.evaluate(READ)
    dump = json.loads(aside(lambda: dump_of(scene.kubeconfig, tmp_path / "dump")))
    (config,) = (
        each
        for each in dump["items"]
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("slo-")
    )
    patch = yaml.safe_load("\n".join(seen["pre"]["Command"].split("\n")[1:-1]) + "\n")
    for name, data in (("old", {}), ("new", patch["data"])):
        (tmp_path / name).write_text(json.dumps({**config, "data": {**config["data"], **data}}))
    files = ["--from", tmp_path / "dump", "--policy", tmp_path / "new", "--against", tmp_path / "old"]
    done = CliRunner().invoke(corewise, ["plan", *map(str, files), "-o", "json"])
    wanted = json.loads(done.stdout)
    assert [each[1:] for each in seen["plain"]["Both plans"]] == [
        [
            str(each["scheduled"]),
            str(each["unscheduled"]),
            str(each["nodesUsed"]),
            cpus(each["schedulableMilliCPU"]),
            part_of(each, "requestedMilliCPU", "schedulableMilliCPU", cpus),
        ]
        for each in wanted["plans"]
    ]
    difference = wanted["difference"]
    for said in (
        f"{count(len(difference['podsLost']), 'pod')}: fit no node with the change",
        f"{count(len(difference['podsGained']), 'pod')}: fit a node with the change",
        f"{count(difference['podsMoved'], 'pod')}: on another node in the plan with the change",
    ):
        expect(page.locator("main")).to_contain_text(said)
    others = seen["plain"].get("Nodes with another ratio", ())
    assert len(others) == difference["nodesWithAnotherRatio"]


def test_the_page_of_a_running_scenario_follows_it(browser: Browser) -> None:
    with running("colocation", nodes=1) as (_, said):
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+", said)
        kubeconfig = load_config(re.findall(r"KUBECONFIG=(\S+)", said)[0])

        async def add() -> None:
            async with Client(kubeconfig) as client:
                await client.create(PODS, pod("new", "colo-0", {"cpu": "250m", "memory": "1Gi"}), "default")

        page = browser.new_page(base_url=url)
        errors = errors_of(page)
        page.goto("/pods")
        expect(page.locator(".connection")).to_have_text("Live", timeout=20_000)
        expect(page.locator("main")).not_to_contain_text("default/new")
        aside(lambda: asyncio.run(add()))
        expect(page.locator("main")).to_contain_text("default/new", timeout=20_000)
        assert errors == []
        page.close()

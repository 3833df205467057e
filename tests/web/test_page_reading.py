"""What the page leads the eye to: the idea first, one denominator a picture, problems by kind, pods."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from web.page_data import EVIL, PROBLEM, table
from web.page_world import PageWorld, errors_of, node_row, pod_row

LAPTOP = {"width": 1440, "height": 900}


def problem(reason: str, name: str, severity: str, **other: Any) -> dict[str, Any]:
    current = severity != "over"
    return {
        **PROBLEM,
        "name": f"{reason} Node/{name}",
        "reason": reason,
        "object": name,
        "node": name,
        "severity": severity,
        "message": f"node {name} has it",
        "current": current,
        **other,
    }


def test_worth_of_a_requested_cpu_comes_first(page: Page) -> None:
    page.set_viewport_size(LAPTOP)  # type: ignore[arg-type]
    page.goto("/")
    first = page.locator("main section").first
    expect(first.locator("h2")).to_have_text("What one requested CPU is worth")
    rows = first.locator("tbody tr")
    expect(rows).to_have_count(2)
    known = rows.filter(has_text="EPYC 9654")
    expect(known.locator("th")).to_have_text("EPYC 9654 2 nodes")
    expect(known.locator("td b")).to_have_text(["1.50", "0.91 to 1.00"])
    expect(rows.filter(has_text="speed unknown")).to_have_count(1)
    bars = known.locator(".bar").evaluate_all("all => all.map((each) => each.getBoundingClientRect().width)")
    assert bars[0] == pytest.approx(bars[1] * 1.5, rel=0.02)
    assert "1.50 baseline CPUs without corewise" in first.locator(".lead").inner_text()


@pytest.mark.parametrize(
    ("color", "says", "value"),
    [
        ("requested", "Area: schedulable CPUs. Color: the share of them that pods request.", "15%"),
        ("use", "Area: raw CPUs. Color: the share of them that pods use", "63%"),
        ("worth", "Area: schedulable CPUs. Color: the worth of one CPU requested there", "0.91"),
        ("pressure", "Area: raw CPUs. Color: the share of them that online pods use", "not measured"),
        ("problems", "Area: schedulable CPUs. Color: the most urgent problem", "no problem"),
    ],
)
def test_each_color_states_its_one_denominator(
    page: Page, world: PageWorld, color: str, says: str, value: str
) -> None:
    page.add_init_script(
        """const context = CanvasRenderingContext2D.prototype, { fillText } = context;
        window.drawn = new Set();
        context.fillText = function (text, ...at) {
            window.drawn.add(text);
            fillText.call(this, text, ...at);
        };"""
    )
    world.data["tables/nodes"] = table(node_row("n1"), worth=[])
    page.set_viewport_size(LAPTOP)  # type: ignore[arg-type]
    page.goto("/")
    page.get_by_label("Color by").select_option(color)
    expect(page.locator(".key")).to_contain_text(says)
    expect(page.locator("canvas")).to_have_attribute("data-tiles", "1")
    page.wait_for_function("text => window.drawn.has(text)", arg=value)
    legend = page.locator(".key").bounding_box()
    assert legend is not None
    assert legend["y"] + legend["height"] < LAPTOP["height"], "the legend is above the fold"
    assert (page.locator(".key .unknown").count() > 0) == (value == "not measured")


def test_pods_are_blocks_that_lead_to_them(page: Page, world: PageWorld) -> None:
    world.data["tables/pods"] = table(
        pod_row("ns/p1"),
        pod_row("ns/p2", qosClass="offline"),
        pod_row("ns/p3", ownedCPUs=2),
        pod_row("ns/p4", node="n2"),
    )
    page.goto("/")
    canvas = page.locator("canvas")
    expect(canvas).to_have_attribute("data-blocks", "4")
    page.locator("select", has_text="As blocks").select_option("none")
    expect(canvas).to_have_attribute("data-blocks", "0")
    assert "pods=none" in page.url


def test_pointer_shows_the_whole_name_of_a_node(page: Page, world: PageWorld) -> None:
    name = "a-node-whose-name-is-much-longer-than-its-tile-on-the-map"
    world.data["tables/nodes"] = table(node_row(name), *(node_row(f"n{number}") for number in range(9)))
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"/?q={name}")
    expect(page.locator("canvas")).to_have_attribute("data-tiles", "1")
    page.locator("canvas").hover()
    expect(page.locator(".tip")).to_have_text(name)
    expect(page.locator(".chosen")).to_contain_text(name)
    row = page.locator(".scroll tbody th")
    expect(row).to_have_text(name)
    assert row.evaluate("cell => cell.scrollWidth <= cell.clientWidth"), "the name is not cut"


def test_filter_and_navigation_agree_with_problems(page: Page, world: PageWorld) -> None:
    act, clears = (
        {"reason": "UnknownCPUModel", "severity": "error"},
        {"reason": "SliceMissing", "severity": "warning"},
    )
    world.data["tables/nodes"] = table(
        node_row("n1", problems=[act, clears]),
        node_row("n2", problems=[clears]),
        node_row("n3", problem="Bad"),
    )
    rows = [
        problem("UnknownCPUModel", "n1", "error"),
        *(problem("SliceMissing", name, "warning") for name in ("n1", "n2")),
    ]
    rows.append(problem("OfferFrozen", "n3", "over", lastEvent="2026-01-01T00:00:00Z"))
    world.data["tables/problems"] = table(*rows)
    world.data["summary"] = {
        "problems": {"error": 1, "warning": 2, "over": 1, "nodes": 2},
        "recommendations": 0,
    }
    page.goto("/?show=problems")
    expect(page.locator(".count")).to_have_text("2 of 3 nodes shown")
    badge = page.get_by_role("link", name=re.compile("Problems ?, 3"))
    expect(badge.locator(".badge.error")).to_be_visible()
    badge.click()
    expect(page.locator(".lead")).to_have_text(
        "3 problems, on 2 nodes: 1 that somebody has to deal with, 2 that usually clear themselves. 1 over."
    )
    page.get_by_label("Show").select_option("warning")
    expect(page.locator("main details summary")).to_have_text(["~ Clears itself SliceMissing: 2 nodes"])


def test_a_kind_of_problem_is_said_once(page: Page, world: PageWorld) -> None:
    names = [f"n{number}" for number in (10, 2, 1)]
    world.data["tables/problems"] = table(*(problem("UnknownCPUModel", name, "error") for name in names))
    page.goto("/problems")
    kind = page.locator("main details")
    expect(kind.get_by_text("ratioModel has no entry for this CPU model.")).to_have_count(1)
    expect(kind.get_by_text("add the model")).to_have_count(1)
    expect(kind.locator("thead th")).to_have_text(["Object", "Age"])
    expect(kind.locator("tbody th")).to_have_text(["n1", "n2", "n10"])
    world.data["tables/problems"] = table(
        problem("UnknownCPUModel", "n1", "error", message="of one sort"),
        problem("UnknownCPUModel", "n2", "error", message="of another"),
    )
    expect(kind.locator("tbody td:nth-child(3)")).to_have_text(["of one sort", "of another"])


def test_age_says_when_a_problem_is_older(page: Page, world: PageWorld) -> None:
    since = (datetime.now(UTC) - timedelta(seconds=330)).isoformat()
    world.data["tables/problems"] = table(
        problem("A", "n1", "error", since=since),
        problem("B", "n2", "error", since=since, atLeast=True),
        problem("C", "n3", "over", since="2026-01-01T00:00:00Z", lastEvent=since),
    )
    page.goto("/problems")
    page.locator("summary", has_text="C: 1 node").click()
    ages = page.locator("tbody td:nth-child(2)")
    expect(ages).to_have_text(
        [re.compile(r"^5m$"), re.compile(r"^5m or more$"), re.compile(r"^over for 5m$")]
    )


def test_node_lists_its_pods_with_use_and_quota(page: Page) -> None:
    page.goto("/nodes/n1")
    pods = page.locator("section", has=page.locator("#pods"))
    expect(pods).to_contain_text("4 pods: 2 online, 1 offline, 1 that own CPUs.")
    rows = pods.locator(".scroll tbody tr")
    expect(rows.locator("th")).to_have_text(["ns/owner", "ns/web-2", "ns/web-10", "ns/sum"])
    shown = [each.strip() for each in rows.nth(1).locator("td").all_inner_texts()]
    assert shown[:9] == ["online", "LS", "1.5", "1.12 (75%)", "3", "2", "0.40 s/s", "0.10 s/s", "-"]
    expect(rows.nth(3)).to_contain_text("1.12 (50%)")
    pods.get_by_label("Show").select_option("offline")
    expect(rows.locator("th")).to_have_text(["ns/sum"])
    rows.locator("a").first.click()
    expect(page.locator("h1")).to_have_text("Pod ns/sum")


def test_breadcrumb_leads_from_pod_to_node_to_cluster(page: Page) -> None:
    page.goto("/pods/ns/p1")
    crumbs = page.get_by_role("navigation", name="Breadcrumb")
    expect(crumbs.locator("li")).to_have_text(["Cluster", "n1", "ns/p1"])
    crumbs.get_by_role("link", name="n1").click()
    expect(page.locator("h1")).to_have_text("Node n1")
    crumbs.get_by_role("link", name="Cluster").click()
    expect(page.locator("h1")).to_have_text("Cluster")


def test_pod_says_why_it_is_slow(page: Page) -> None:
    page.goto("/pods/ns/p1")
    expect(page.get_by_role("heading", name="Why it is slow, if it is")).to_be_visible()
    expect(page.locator("pre").first).to_contain_text("waits")


def test_pods_are_in_natural_order_by_namespace(page: Page, world: PageWorld) -> None:
    names = ["team/batch-10", "team/batch-2", "other/a-1", "team/batch-1"]
    world.data["tables/pods"] = table(*map(pod_row, names))
    page.goto("/pods")
    shown = page.locator(".scroll tbody th")
    expect(shown).to_have_text(["other/a-1", "team/batch-1", "team/batch-2", "team/batch-10"])
    page.get_by_label("Namespace").select_option("team")
    expect(shown).to_have_text(["team/batch-1", "team/batch-2", "team/batch-10"])
    page.reload()
    expect(shown).to_have_count(3)
    page.get_by_label("Search").fill("nothing has this name")
    page.get_by_role("button", name="Show all").click()
    expect(shown).to_have_count(4)


def test_columns_are_chosen_and_kept_in_the_address(page: Page) -> None:
    page.set_viewport_size(LAPTOP)  # type: ignore[arg-type]
    page.goto("/pods")
    head = page.locator(".scroll thead th:visible")
    expect(head).to_have_text(["Pod", "Node", "Class", "CPU", "Mem GiB", "Batch CPU", "Owned CPUs", "State"])
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Class").uncheck()
    page.get_by_label("Batch mem GiB").check()
    wanted = ["Pod", "Node", "CPU", "Mem GiB", "Batch CPU", "Batch mem GiB", "Owned CPUs", "State"]
    expect(head).to_have_text(wanted)
    page.reload()
    expect(head).to_have_text(wanted)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("button", name="Usual columns").click()
    expect(head).to_have_count(8)


def test_recommendation_has_reason_command_and_copy_button(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/recommendations")
    one = page.locator(".advice")
    expect(one).to_contain_text("3.3 normalized CPUs become free. Why:")
    command = one.locator("pre")
    expect(command).to_contain_text("kubectl -n ns set resources deployment/web --requests=cpu=700m")
    one.get_by_role("button", name="Copy").click()
    expect(one.get_by_role("status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == command.inner_text()


def test_what_if_answers_with_bars_and_readable_patch(page: Page, world: PageWorld) -> None:
    plan = {
        "configuration": "now",
        "scheduled": 90,
        "unscheduled": 0,
        "nodesUsed": 8,
        "schedulableMilliCPU": 200_000,
        "requestedMilliCPU": 100_000,
    }
    models = [
        {
            "model": "AMD EPYC 9654 96-Core Processor",
            "shortModel": "EPYC 9654",
            "nodes": 2,
            "beforeCPUMilli": 100_000,
            "afterCPUMilli": 50_000,
        }
    ]
    difference = {"differs": True, "podsMoved": 54, "podsGained": [], "podsLost": ["ns/p1"], "ratios": []}
    difference |= {"heldBack": [], "models": models}
    command = "kubectl patch --patch-file /dev/stdin <<'EOF'\ndata:\n  key: |-\n    {}\nEOF"
    undo = "kubectl annotate node n1 ratio-"
    world.data["POST what-if"] = {
        "command": command,
        "undo": undo,
        "problems": [],
        "plan": {"plans": [plan, {**plan, "configuration": "with the change"}]},
        "difference": difference,
    }
    page.goto("/what-if?change=ratio&node=n1")
    expect(page.get_by_label("Node (empty")).to_have_value("n1")
    page.get_by_role("button", name="Try it").click()
    main = page.locator("main")
    expect(main).to_contain_text("place every pod again")
    expect(main).to_contain_text("54 pods: on another node in the plan with the change")
    expect(main).to_contain_text("1 pod: fit no node with the change")
    bars = page.locator("#models ~ table .bar").evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect().width)"
    )
    assert bars[0] == pytest.approx(2 * bars[1], rel=0.02)
    expect(page.locator("pre")).to_have_text([command, undo])
    page.get_by_role("button", name="Copy command").click()
    expect(page.locator(".copyable [role=status]").first).not_to_be_empty()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/hosts", "No compute hosts are shown."),
        ("/nodes/none", "The cluster has no node none."),
    ],
)
def test_errors_say_what_to_do_and_lead_back(page: Page, world: PageWorld, path: str, said: str) -> None:
    world.messages = {"tables/hosts": said, "nodes/none": said}
    del world.data["tables/hosts"]
    page.goto(path)
    expect(page.get_by_role("alert")).to_contain_text(said)
    page.get_by_role("alert").get_by_role("link", name="Show the cluster").click()
    expect(page.locator("h1")).to_have_text("Cluster")


def test_empty_tables_say_so_in_words(page: Page, world: PageWorld) -> None:
    said = {
        "/": ("nodes", "The cluster has no nodes"),
        "/pods": ("pods", "No pod waits or runs"),
        "/offline": ("offline", "No node offers idle CPU"),
        "/problems": ("problems", "No corewise program reports a problem."),
        "/recommendations": ("recommendations", "Nothing to recommend"),
        "/hosts": ("hosts", "No compute host is known."),
    }
    for path, (name, text) in said.items():
        world.data[f"tables/{name}"] = table()
        page.goto(path)
        expect(page.locator("main")).to_contain_text(text)
    page.goto("/nowhere/at/all")
    expect(page.locator("h1")).to_have_text("The page has no view at this address")


def test_the_fastest_model_and_fullest_node_are_named(page: Page, world: PageWorld) -> None:
    rows = node_row("n1", requested=7000), node_row("n2", requested=70_000)
    world.data["tables/nodes"] = table(*rows, worth=world.data["tables/nodes"]["worth"])
    page.goto("/")
    figures = page.locator(".figures > div")
    expect(figures.filter(has_text="Fastest CPU model")).to_contain_text("EPYC 9654 (1.50)")
    expect(figures.filter(has_text="Fullest node")).to_contain_text("n2 (89%)")


def test_models_are_short_and_whole_on_hover(page: Page, world: PageWorld) -> None:
    model = "Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz"
    world.data["tables/nodes"] = table(node_row("n1", cpuModel=model), worth=[])
    page.goto("/")
    cell = page.locator(".scroll tbody td").first
    expect(cell).to_have_text("Xeon 8269CY")
    expect(cell).to_have_attribute("title", model)


def test_node_says_what_limits_its_offline_work(page: Page, world: PageWorld) -> None:
    page.goto("/nodes/n1")
    lately = page.locator("section", has=page.locator("#lately"))
    expect(lately).to_contain_text("Offline work is limited by: 0.60 of idle.")
    expect(lately).to_contain_text("offered 0.60 of the CPU that online pods leave idle")


def test_node_colors_a_problem_by_its_severity(page: Page, world: PageWorld) -> None:
    found = {"reason": "OfferBelowRequests", "message": "less is offered", "fix": None}
    node = world.data["nodes/n1"]
    node["explanation"] = {**node["explanation"], "record": {"problems": [found]}}
    node["severities"] = {"OfferBelowRequests": "warning"}
    page.goto("/nodes/n1")
    expect(page.locator("section.problems.warning dt")).to_have_text("~ Clears itself OfferBelowRequests")


def test_what_if_starts_with_what_the_node_has(page: Page) -> None:
    page.goto("/nodes/n1")
    page.get_by_role("link", name="amplification of this node").click()
    expect(page.get_by_label("Node (empty")).to_have_value("n1")
    expect(page.locator("fieldset")).to_contain_text(
        "normalization ratio 1.50, amplification ratio 1.65 with it"
    )
    page.go_back()
    page.get_by_role("link", name="normalization of its CPU model").click()
    expect(page.get_by_label("CPU model")).to_have_value("AMD EPYC 9654 96-Core Processor")
    expect(page.locator("select[name=field]")).to_have_value("hyperThreadEnabledRatio")
    expect(page.locator("fieldset")).to_contain_text(
        "Now on n1: hyperThreadEnabledRatio, normalization ratio 1.50."
    )


def test_title_names_view_object_and_context(page: Page, world: PageWorld) -> None:
    world.data["session"] = {**world.data["session"], "cluster": "prod", "server": "https://127.0.0.1:6443"}
    titles = {
        "/": "Cluster · prod · corewise",
        "/pods": "Pods · prod · corewise",
        "/nodes/n1": "Node n1 · prod · corewise",
        "/pods/ns/p1": "Pod ns/p1 · prod · corewise",
        "/recommendations": "Recommendations · prod · corewise",
    }
    for path, title in titles.items():
        page.goto(path)
        expect(page).to_have_title(title)
    session = page.locator(".session")
    expect(session).to_contain_text("prod")
    expect(session).not_to_contain_text("127.0.0.1")
    expect(session.locator("span").first).to_have_attribute("title", "API server https://127.0.0.1:6443")


def test_chart_lines_have_colors_and_whole_labels(page: Page, world: PageWorld) -> None:
    history = world.data["offline/*"]["history"]
    big = {
        name: [1_234_567_000, 1_234_567_000]
        for name in ("onlineCPUMilli", "offlineCPUMilli", "offeredCPUMilli")
    }
    world.data["offline/*"] = {"history": {**history, **big}}
    page.add_init_script(
        """const context = CanvasRenderingContext2D.prototype, { fillText } = context;
        window.cut = [];
        context.fillText = function (text, x, y) {
            const { width, actualBoundingBoxLeft: left, actualBoundingBoxRight: right } =
            this.measureText(text); const at = this.getTransform().transformPoint({ x, y }); const scale =
            devicePixelRatio; if (width && (at.x - left * scale < -1 || at.x + right * scale >
            this.canvas.width + 1)) window.cut.push(text); fillText.call(this, text, x, y);
        };"""
    )
    page.goto("/offline")
    expect(page.locator(".uplot").nth(3)).to_be_visible()
    page.wait_for_timeout(300)
    assert page.evaluate("window.cut") == []
    colors = page.locator(".dash line").evaluate_all(
        "all => all.slice(0, 2).map((each) => getComputedStyle(each).stroke)"
    )
    assert colors[0] != colors[1]


def test_a_fresh_page_makes_no_errors(page: Page) -> None:
    errors = errors_of(page)
    for path in ("/", "/problems", "/recommendations", "/nodes/n1", "/pods", "/pods/ns/p1"):
        page.goto(path)
        expect(page.locator(".connection")).to_have_text("Live")
        assert EVIL not in page.title() or "pwned" not in page.url
    assert errors == []


def test_pod_at_its_quota_names_its_limit(page: Page, world: PageWorld) -> None:
    quota = {
        "normalizationRatio": "2.00",
        "sharing": "CPUShare pod",
        "periodMicroseconds": 100_000,
        "containers": [{"name": "main", "limitCPUMilli": 1500, "quotaMicroseconds": 75_000}],
    }
    world.data["pods/ns/p1"] = {**world.data["pods/ns/p1"], "quota": quota}
    page.goto("/pods/ns/p1")
    expect(page.locator("main")).to_contain_text(
        "it uses 0.75 of the 0.75 raw CPUs that its quota gives it here"
    )
    world.data["pods/ns/p1"] = {**world.data["pods/ns/p1"], "usedRawCPUMilli": 600}
    page.reload()
    expect(page.locator("pre").first).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("It runs at its limit")

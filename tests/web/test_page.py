"""The page in a real browser: numbers as the commands print them, live, and usable by everybody.

The server here is the test's own (page_world.py), so that its data can be anything and it can stop answering.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from corewise.views.text import cpus, gibibytes, measured, percent
from tools.web import SOURCES, install
from web.page_data import AS_IT_IS, EVIL, HISTORY, PROBLEM, table
from web.page_world import PageWorld, errors_of, node_row, pod_row

VIEWS = ["/", "/pods", "/offline", "/problems", "/recommendations", "/nodes/n1", "/pods/ns/p1", "/hosts"]
VIEWS += ["/?color=worth", "/?color=problems"]
VIEWS += ["/hosts/h1", "/hosts/broken"]
VIEWS += [f"/what-if?change={change}" for change in ("model", "config", "flavor")]


def cells(page: Page, row: str) -> list[str]:
    shown = page.locator("tbody tr", has_text=row).first
    shown.wait_for()
    return [each.strip() for each in shown.locator("th,td").all_inner_texts()]


def test_cells_show_the_digits_the_command_line_prints(page: Page, world: PageWorld) -> None:
    page.set_viewport_size({"width": 2600, "height": 1400})
    page.goto("/")
    row = world.data["tables/nodes"]["rows"][0]
    shown = cells(page, "n1")
    assert shown[4:12] == [
        cpus(row["rawAllocatableCPUMilli"]),
        row["normalizationRatio"],
        cpus(row["normalizedCPUMilli"]),
        row["amplificationRatio"],
        cpus(row["schedulableCPUMilli"]),
        cpus(row["requestedCPUMilli"]) + percent(row["requestedCPUMilli"], row["schedulableCPUMilli"]),
        cpus(row["freeCPUMilli"]),
        measured(row["offlineOfferedCPUMilli"]),
    ]
    assert shown[-2] == gibibytes(row["requestedMemoryBytes"])


def test_page_shows_changes_and_recovers_from_server_loss(page: Page, world: PageWorld) -> None:
    page.goto("/")
    status = page.locator(".connection")
    expect(status).to_have_text("Live")
    world.data["tables/nodes"] = table(node_row("n1", 55_000), node_row("n3"))
    expect(page.locator("tbody tr", has_text="n1")).to_contain_text("55 (70%)")
    expect(page.locator("tbody tr", has_text="n2")).to_have_count(0)
    world.lost = "refused"
    expect(status).to_contain_text("The cluster does not answer: refused")
    world.lost = ""
    expect(status).to_have_text("Live")
    world.stop()
    expect(status).to_contain_text("does not answer")
    expect(page.locator("tbody tr", has_text="n1")).to_contain_text("55 (70%)")
    world.data["tables/nodes"] = table(node_row("n1", 11_000))
    world.start()
    expect(status).to_have_text("Live", timeout=15_000)
    expect(page.locator("tbody tr", has_text="n1")).to_contain_text("11 (14%)")


def test_hidden_page_frees_its_connection_and_catches_up(page: Page, world: PageWorld) -> None:
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.goto("/pods")
    expect(page.locator(".connection")).to_have_text("Live")
    page.evaluate(hide, True)
    expect(page.locator(".connection")).to_have_text("Loading", timeout=10_000)
    world.data["tables/pods"] = table(pod_row("ns/p2"))
    expect(page.locator("tbody tr", has_text="ns/p1")).to_be_visible()
    page.evaluate(hide, False)
    expect(page.locator("tbody tr", has_text="ns/p2")).to_be_visible()
    expect(page.locator(".connection")).to_have_text("Live")


def test_views_pass_accessibility_audit_without_errors_or_injection(page: Page) -> None:
    try:
        install()
    except SystemExit as error:
        pytest.skip(f"axe-core cannot be installed: {error}")
    errors = errors_of(page)
    axe = (SOURCES / "node_modules/axe-core/axe.min.js").read_text()
    for width in (1400, 360):
        page.set_viewport_size({"width": width, "height": 900})
        for view in VIEWS:
            page.emulate_media(color_scheme="light")
            page.goto(view)
            expect(page.locator(".connection")).to_have_text("Live")
            page.evaluate(axe)
            found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
            page.emulate_media(color_scheme="dark")
            expect(page.locator("html")).to_have_attribute("data-theme", "dark")
            found += page.evaluate("axe.run({ runOnly: ['color-contrast'] })")["violations"]
            assert "\n".join(f"{each['id']} {each['nodes'][0]['html']}" for each in found) == "", view
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            assert page.evaluate("window.pwned") is None, view
    assert errors == []


def hostile(value: Any) -> Any:
    """Return data with an attack in every text, but in names that are addresses and in what is parsed."""
    if isinstance(value, list):
        return [hostile(each) for each in value]
    if isinstance(value, dict):
        parsed = {"name", "unit", "since", "last", "kind"} | {each for each in value if each.endswith("CPUs")}
        return {
            key if key in value and not key.startswith("topology.") else key + EVIL: (
                each if key in parsed or key.endswith("Ratio") else hostile(each)
            )
            for key, each in value.items()
        }
    return value + EVIL if isinstance(value, str) else value


def test_no_text_that_comes_from_users_is_html(page: Page, world: PageWorld) -> None:
    guest = {"guest": EVIL, "flavor": EVIL, "state": EVIL, "vcpus": 1, "cpuPolicy": EVIL, "heldCPUs": "2"}
    status = {
        "cpus": [{"cpu": 2, "numaNode": 0, "use": EVIL, "guest": EVIL, "guestCPU": 0}],
        "conflicts": [{"guest": EVIL, "cpus": "2", "heldBy": EVIL}],
        "guests": [{**guest, "threadPolicy": EVIL, "resources": {EVIL: 1}}],
    }
    world.data["hosts/h1"]["status"] = status
    world.data[f"pods/ns/{EVIL}"] = world.data["pods/ns/p1"]
    world.data |= {path: hostile(data) for path, data in world.data.items()}
    found = {"severity": "error", "path": EVIL, "message": EVIL, "line": 1}
    world.data["what-if"] = {"config": {"key": EVIL}}
    world.data["POST what-if"] = {"problems": [found], "command": EVIL}
    problems = errors_of(page)
    for view in (
        *VIEWS,
        "/?group=label:topology.kubernetes.io/zone" + quote(EVIL),
        f"/pods/ns/{quote(EVIL, safe='')}",
    ):
        page.goto(view)
        expect(page.locator(".connection")).to_have_text("Live")
        expect(page.locator("h1")).to_be_visible()
        assert EVIL in page.evaluate("document.body.textContent"), view
        assert page.locator("#app img, #app script").count() == 0, view
    page.goto("/what-if?change=config")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".checked")).to_contain_text(EVIL)
    assert page.locator("#app img, #app script").count() == 0
    assert problems == []


def test_the_content_security_policy_stops_an_inline_script(page: Page) -> None:
    page.goto("/")
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.inline = 1";
        document.body.append(script);
    }""")
    assert page.evaluate("window.inline") is None


def test_keyboard_reaches_a_node_through_map_and_returns(page: Page, world: PageWorld) -> None:
    page.goto("/")
    expect(page.locator(".connection")).to_have_text("Live")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chosen")).to_contain_text("schedulable CPUs")
    world.data["nodes/n2"] = world.data["nodes/n1"]
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    assert page.url.startswith(f"{world.url}/nodes/n")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Cluster")


@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_every_control_and_shows_the_focus(page: Page, view: str) -> None:
    page.goto(view)
    expect(page.locator(".connection")).to_have_text("Live")
    every = page.evaluate("""() => {
        const usable = "a[href], button, input, select, textarea, summary, [tabindex='0']";
        const all = document.querySelectorAll(usable);
        const seen = [...all].filter((each) => each.checkVisibility() && !each.disabled);
        seen.forEach((each, place) => { each.dataset.walk = place; });
        return seen.map((each) => each.outerHTML.slice(0, 80));
    }""")
    reached = set()
    for _ in every:
        page.keyboard.press("Tab")
        place, outline = page.evaluate("""() => {
            const { activeElement } = document;
            return [Number(activeElement.dataset.walk ?? -1), getComputedStyle(activeElement).outlineStyle];
        }""")
        assert outline != "none", every[place]
        reached.add(place)
    assert [each for place, each in enumerate(every) if place not in reached] == []


def test_the_address_holds_search_group_and_order(page: Page) -> None:
    page.goto("/?group=label:topology.kubernetes.io/zone&sort=free")
    expect(page.get_by_label("Group by")).to_have_value("label:topology.kubernetes.io/zone")
    expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("Search").fill("nothing has this name")
    expect(page.get_by_text("No node matches")).to_be_visible()
    page.get_by_label("Search").fill("n2")
    expect(page.locator(".scroll tbody tr")).to_have_count(1)
    assert "q=n2" in page.url
    page.reload()
    expect(page.locator(".scroll tbody tr")).to_have_count(1)


def test_page_draws_5000_nodes_holding_only_visible_rows(page: Page, world: PageWorld) -> None:
    names = [f"node-{number:04}" for number in range(5000)]
    world.data["tables/nodes"] = table(*(node_row(name) for name in names))
    page.goto("/")
    expect(page.locator(".scroll table")).to_have_attribute("aria-rowcount", "5001")
    expect(page.locator("canvas")).to_have_attribute("data-tiles", "5000")
    assert page.locator(".scroll tbody tr").count() < 100
    page.locator(".scroll").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    expect(page.locator("tbody tr", has_text="node-4999")).to_be_visible()
    drawn = "performance.getEntriesByName('map drawn').length"
    before = page.evaluate(drawn)
    rest = [node_row(name) for name in names[100:]]
    world.data["tables/nodes"] = table(*(node_row(name, 70_000) for name in names[:100]), *rest[:-1])
    expect(page.locator("tbody tr", has_text="node-4999")).to_have_count(0)
    expect(page.locator("canvas")).to_have_attribute("data-tiles", "4999")
    assert page.evaluate(drawn) == before + 1, "one event is one repaint, however many nodes it changes"
    page.locator(".scroll").evaluate("box => box.scrollTo(0, 0)")
    expect(page.locator("tbody tr", has_text="node-0009")).to_contain_text("70 (89%)")


def test_printout_is_white_with_all_rows_and_map(page: Page, world: PageWorld) -> None:
    world.data["tables/nodes"] = table(*(node_row(f"node-{number:03}") for number in range(300)))
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto("/")
    expect(page.locator("canvas")).to_have_attribute("data-tiles", "300")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) != "rgb(255, 255, 255)"
    # A browser prints at once: all must be in place when its event has been dealt with.
    dark = page.locator("canvas").evaluate("canvas => canvas.toDataURL()")
    drawn = page.locator("canvas").evaluate(
        "canvas => { dispatchEvent(new Event('beforeprint')); return canvas.toDataURL(); }"
    )
    assert drawn != dark
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.locator(".scroll tbody tr").count() == 300
    page.set_viewport_size({"width": 720, "height": 900})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(ground) != "rgb(255, 255, 255)"
    expect(page.locator(".scroll tbody tr").nth(299)).to_have_count(0)


def test_page_sends_the_required_token_without_storing_it(page: Page, world: PageWorld) -> None:
    world.token = "secret-token"
    page.goto("/")
    page.get_by_label("Bearer token").fill("secret-token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("tbody tr", has_text="n1")).to_be_visible(timeout=10_000)
    expect(page.get_by_label("Bearer token")).to_have_count(0)
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert "secret-token" not in kept


def test_flavor_is_sent_verbatim_and_eliminations_are_shown(page: Page, world: PageWorld) -> None:
    refused = {"reason": "NoValidHost", "message": EVIL, "hosts": 9, "details": [EVIL]}
    refused["fallen"] = [
        {"hosts": 7, "demand": "PCPU", "reason": None},
        {"hosts": 2, "demand": "NUMA fit", "reason": "NoFit"},
    ]
    world.data["POST what-if"] = {"placed": None, "refused": refused}
    page.goto("/what-if?change=flavor")
    page.get_by_label("vCPUs").fill("40")
    page.get_by_label("Extra specs").fill("hw:cpu_policy=dedicated\nhw:numa_nodes")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".refused")).to_contain_text("line 2: write KEY=VALUE")
    page.get_by_label("Extra specs").fill("hw:cpu_policy = dedicated")
    page.get_by_label("Properties of the image").fill("hw_cpu_thread_policy=isolate")
    with page.expect_request("**/api/what-if") as sent:
        page.get_by_role("button", name="Try it").click()
    assert sent.value.post_data_json == {
        "change": "flavor",
        "flavor": {
            "name": "tried",
            "vcpus": 40,
            "ram": 4096,
            "disk": 0,
            "extra_specs": {"hw:cpu_policy": "dedicated"},
        },
        "image": {"properties": {"hw_cpu_thread_policy": "isolate"}},
        "pack": False,
    }
    assert cells(page, "PCPU") == ["PCPU", "7", "", "-"]
    assert cells(page, "NUMA fit") == ["NUMA fit", "2", "", "NoFit"]
    placed = {
        "host": "h1",
        "resources": {"PCPU": 4},
        "pinnedCPUs": "2-5",
        "emulatorCPU": 6,
        "withheldCPUs": "7",
    }
    placed |= {"cells": [{"hostNode": 1, "memoryMiB": 4096}], "lost": {"h2": EVIL}}
    placed["hosts"] = [{"host": "h1", "freeCPUs": 16, "interferenceScore": None, "score": 26.6}]
    world.data["POST what-if"] = {"placed": placed, "refused": None}
    page.get_by_role("button", name="Try it").click()
    expect(page.locator("#tried")).to_have_text("Host h1 would take it")
    assert cells(page, "h1") == ["h1", "16", "-", "26.6"]
    expect(page.locator("main")).to_contain_text("Pinned to CPUs 2-5")
    assert page.evaluate("window.pwned") is None


def test_node_stands_beside_quantiles_in_words_and_drawing(page: Page) -> None:
    page.goto("/nodes/n1")
    shown = ["Bandwidth", "45.6 GB/s", "", "0 GB/s", "1.5 GB/s", "10 GB/s", "2"]
    assert cells(page, "Bandwidth") == shown
    assert cells(page, "Latency") == ["Latency", "-", "", *["7 GB/s"] * 3, "1"]
    marks = page.locator(".spread polygon")
    expect(marks).to_have_count(1)  # a node without a value has no mark
    drawing = "each => each.getBoundingClientRect().toJSON()"
    mark, line = marks.evaluate(drawing), page.locator(".spread line").first.evaluate(drawing)
    assert mark["left"] > line["right"]  # it has more than all others


def test_host_shows_cpu_holders_and_what_upgrade_moves(page: Page) -> None:
    page.goto("/hosts")
    assert cells(page, "FileUnusable")[2:7] == ["-"] * 5
    assert cells(page, "legacy")[2:7] == ["2", "4", "1", "1", "1"]
    page.get_by_role("link", name="h1").click()
    drawn = page.locator(".machine .cpu")
    expect(drawn).to_have_count(6)
    assert drawn.all_inner_texts() == ["0\nH", "1\n1", "2\n1e", "3\n!", "4\nD", "5"]
    page.get_by_role("button", name="2 show in the drawing").click()
    expect(page.locator(".machine .lit")).to_have_count(0)
    page.get_by_role("button", name="1 show in the drawing").click()
    expect(page.locator(".machine .lit")).to_have_count(3)
    assert cells(page, "g2")[1:] == ["g2", "3", "1", "f", "held", "1", "dedicated", "-", "1 PCPU"]
    expect(page.locator(".problem", has_text="which guest")).to_contain_text("guest g2 claims CPUs 3")
    assert cells(page, "16")[:4] == ["VCPU", "6", "1", "16"]
    assert cells(page, "1 VCPU")[1:] == ["1 VCPU", "1 PCPU"]


def test_key_loads_text_and_problems_lead_to_lines(page: Page, world: PageWorld) -> None:
    page.goto("/what-if?change=config")
    text = page.get_by_label("Its text")
    expect(text).to_have_value(AS_IT_IS)
    text.fill('{\n  "enable": maybe\n}')
    page.get_by_label("Key of the ConfigMap").select_option("other")
    expect(text).to_have_value("{}")
    page.get_by_label("Key of the ConfigMap").select_option("amplification")
    problem = {"severity": "error", "path": "enable", "message": EVIL, "line": 2, "column": 13}
    world.data["POST what-if"] = {"command": EVIL, "problems": [problem]}
    with page.expect_request("**/api/what-if") as sent:
        page.get_by_role("button", name="Try it").click()
    assert sent.value.post_data_json == {
        "change": "config",
        "key": "amplification",
        "text": '{\n  "enable": maybe\n}',
    }
    page.get_by_role("button", name="Line 2").click()
    expect(text).to_be_focused()
    chosen = "box => box.value.slice(box.selectionStart, box.selectionEnd)"
    assert text.evaluate(chosen) == '  "enable": maybe'
    assert page.evaluate("window.pwned") is None


def test_single_namespace_user_asks_and_address_keeps_it(page: Page, world: PageWorld) -> None:
    world.forbidden = {"tables/pods", "tables/pods?namespace=other"}
    world.data["tables/pods?namespace=team"] = table(pod_row("team/mine"))
    page.goto("/pods")
    expect(page.get_by_role("alert")).to_contain_text("you may not see tables/pods")
    for namespace, shown in (("team", 1), ("other", 0), ("team", 1)):
        page.get_by_label("Namespace").last.fill(namespace)
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr", has_text="team/mine")).to_have_count(shown)
        assert page.url.endswith(f"?namespace={namespace}")
    page.reload()
    expect(page.locator("tbody tr", has_text="team/mine")).to_be_visible()


def test_ages_grow_by_the_clock_of_the_server(page: Page, world: PageWorld) -> None:
    since = (datetime.now(UTC) - timedelta(seconds=95)).isoformat()
    world.data["tables/problems"] = table({**PROBLEM, "since": since})
    page.clock.install(time=datetime.now(UTC) - timedelta(days=9))  # the browser's clock is wrong
    page.route("**/api/summary", lambda route: route.abort())  # it would bring the clock of the server
    page.goto("/problems")
    age = page.locator("tbody tr", has_text="n2").locator("td").first
    expect(age).to_have_text(re.compile(r"\d+s"))
    page.clock.run_for(35_000)
    expect(age).to_have_text("2m")


def test_drawn_labels_are_whole_numbers_and_distinct_times(page: Page, world: PageWorld) -> None:
    page.add_init_script(
        """const context = CanvasRenderingContext2D.prototype, { fillText } = context;
        window.drawn = new Set();
        context.fillText = function (text, ...at) {
            window.drawn.add(text);
            fillText.call(this, text, ...at);
        };"""
    )
    lists = {key: [value[0]] for key, value in HISTORY.items() if isinstance(value, list)}
    world.data["offline/*"] = {"history": {**HISTORY, **lists}}
    page.goto("/offline")
    expect(page.locator(".uplot").nth(3)).to_be_visible()
    times = [each for each in page.evaluate("[...window.drawn]") if ":" in each]
    assert len(times) > 2  # of one sample too
    assert all(each.count(":") == 2 for each in times)
    page.set_viewport_size({"width": 360, "height": 800})
    world.data["tables/nodes"] = table(*(node_row(f"node-of-the-{number}th-rack") for number in range(9)))
    page.goto("/")
    expect(page.locator("canvas")).to_have_attribute("data-tiles", "9")
    assert "node-of-the-" in page.evaluate("[...window.drawn]")  # a name goes on in the next line
    assert not [each for each in page.evaluate("[...window.drawn]") if re.search(r"^(\d|requ|used).*…", each)]

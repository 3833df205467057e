"""A newcomer's walk: five questions answered from the first page on, by clicks, typing and reading only.

question                                    way to the answer
which CPU model is fastest?                 the figures of the first page
which node is fullest?                      the figures of the first page; its name is a link
why is pod X slow?                          Pods, search its name, its page
what limits offline work on node Y?         search its name, its page
what happens if Y's ratio is lowered?       its page, "normalization of its CPU model", a ratio, Try it

The objects are those of a recorded scenario; what the commands print is the right answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from web.page_world import aside, errors_of, page_of
from web.scenario_world import recorded
from web.test_web_views import printed

LAPTOP = {"width": 1440, "height": 900}
POD, NODE = "default/web-0", "genoa-0"


@dataclass(frozen=True, slots=True)
class Scene:
    """The recorded cluster, and the address of its page."""

    kubeconfig: Path
    url: str

    def printed(self, command: str) -> Any:
        return aside(lambda: printed(self.kubeconfig, command))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with recorded("builtin", tmp_path_factory.mktemp("walk")) as kubeconfig, page_of(kubeconfig) as url:
        yield Scene(kubeconfig, url)


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    """The first page, as somebody sees it who has only its address."""
    context = browser.new_context(base_url=scene.url, viewport=LAPTOP)  # type: ignore[arg-type]
    opened = context.new_page()
    errors = errors_of(opened)
    opened.goto("/")
    expect(opened.locator(".connection")).to_have_text("Live", timeout=20_000)
    yield opened
    context.close()
    assert errors == []


def figure(page: Page, name: str) -> Any:
    return page.locator(".figures > div", has_text=name)


def to_view(page: Page, title: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=title).click()


def test_fastest_model_is_on_the_first_page(scene: Scene, page: Page) -> None:
    rows = scene.printed("nodes --all")["items"]
    fastest = max(rows, key=lambda row: float(row["normalizationRatio"] or 0))
    shown = figure(page, "Fastest CPU model")
    expect(shown).to_contain_text(fastest["normalizationRatio"])
    name = shown.inner_text().split("\n")[-1].partition(" (")[0]
    assert all(word in fastest["cpuModel"] for word in name.split())


def test_fullest_node_is_on_the_first_page(scene: Scene, page: Page) -> None:
    rows = scene.printed("nodes --all")["items"]
    fullest = max(rows, key=lambda row: row["requestedCPUMilli"] / row["schedulableCPUMilli"])
    figure(page, "Fullest node").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(f"Node {fullest['name']}")


def test_slow_pod_says_why_on_its_page(page: Page) -> None:
    to_view(page, "Pods")
    page.get_by_label("Search").fill(POD)
    page.get_by_role("link", name=POD, exact=True).click()
    expect(page.locator("h1")).to_have_text(f"Pod {POD}")
    expect(page.get_by_role("group", name="Why it is slow, if it is")).to_contain_text(POD)


def test_node_page_says_what_limits_offline_work(scene: Scene, page: Page) -> None:
    (row,) = (row for row in scene.printed("top offline")["items"] if row["name"] == NODE)
    page.get_by_label("Search").fill(NODE)
    page.get_by_role("link", name=NODE, exact=True).first.click()
    expect(figure(page, "Offline work limited by")).to_contain_text(row["limitedBy"])
    expect(page.locator("#lately ~ p").first).to_contain_text(row["limitedBy"])


def test_lowered_ratio_shows_effect_command_and_undo(scene: Scene, page: Page) -> None:
    (row,) = (row for row in scene.printed("nodes --all")["items"] if row["name"] == NODE)
    page.get_by_label("Search").fill(NODE)
    page.get_by_role("link", name=NODE, exact=True).first.click()
    page.get_by_role("link", name="normalization of its CPU model").click()
    expect(page.get_by_label("CPU model")).to_have_value(row["cpuModel"])
    page.get_by_label("Ratio (empty").fill("1.50")
    page.get_by_role("button", name="Try it").click()
    changed = page.get_by_role("region", name="The difference").get_by_role("row", name=NODE)
    expect(changed).to_contain_text(f"{row['amplificationRatio']}1.50", timeout=60_000)
    for label in ("Command", "Undo command"):
        expect(page.get_by_label(label, exact=True)).to_contain_text(row["cpuModel"])


def test_speed_alone_leads_to_the_models_ratio(page: Page) -> None:
    page.get_by_label("Search").fill(NODE)
    page.get_by_role("link", name=NODE, exact=True).first.click()
    page.get_by_role("link", name="amplification of this node").click()
    expect(page.locator("fieldset")).to_contain_text("No ratio of its own is in it.")
    page.locator("fieldset").get_by_role("link", name="normalization of its CPU model").click()
    expect(page.get_by_label("CPU model")).to_be_visible()

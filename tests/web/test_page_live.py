"""The page as users have it: ``corewise web`` as a program, a local API server, a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from api_process import local_api_server
from cli.test_web_views import fill, pod, printed
from corewise.cli import output
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import PODS
from web.page_world import aside, errors_of, page_of

SOON = 2_000
"""Milliseconds within which a change is seen."""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


@pytest.fixture(scope="module")
def page(kubeconfig: Path, browser: Browser) -> Iterator[Page]:
    with page_of(kubeconfig) as url:
        yield browser.new_page(base_url=url, viewport={"width": 2600, "height": 1400})


async def start_a_pod(kubeconfig: Path) -> None:
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(PODS, pod("new", "slow", {"cpu": "2500m", "memory": "1Gi"}), "default")


def test_a_node_has_the_digits_of_the_command_and_a_new_pod_is_seen_within_2_s(
    kubeconfig: Path, page: Page
) -> None:
    page.goto("/")
    expect(page.locator(".connection")).to_have_text("Live")
    listed = aside(lambda: printed(kubeconfig, "nodes --all"))
    (row,) = (each for each in listed["items"] if each["name"] == "slow")
    shown = page.locator("tbody tr", has_text="slow")
    for amount in ("rawAllocatableCPUMilli", "schedulableCPUMilli", "freeCPUMilli"):
        expect(shown).to_contain_text(output.cpus(row[amount]))
    aside(lambda: asyncio.run(start_a_pod(kubeconfig)))
    expect(shown).to_contain_text("2.5", timeout=SOON)


@pytest.mark.parametrize(
    "path", ["/pods", "/offline", "/problems", "/what-if", "/nodes/fast", "/pods/default/owner"]
)
def test_every_view_is_live_and_has_no_error(page: Page, path: str) -> None:
    errors = errors_of(page)
    page.goto(path)
    expect(page.locator(".connection")).to_have_text("Live")
    expect(page.locator("h1")).to_be_visible()
    assert errors == []


def test_a_pod_without_a_node_says_what_speaks_against_each(kubeconfig: Path, page: Page) -> None:
    page.goto("/pods/default/nowhere")
    said = aside(lambda: printed(kubeconfig, "explain pod default/nowhere"))
    assert [each["suits"] for each in said["nodes"]] == [False] * 3
    for each in said["nodes"]:
        for verdict in each["verdicts"]:
            expect(page.locator("main")).to_contain_text(verdict["message"])

"""The page as users have it: ``corewise web`` as a program, a local API server, a real browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from api_process import local_api_server
from cli.offline_world import changed
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import EVENTS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from corewise.vocabulary import names
from web.page_world import aside, errors_of, page_of
from web.test_web_views import FRESH, fill, pod, printed

SOON = 2_000
"""Milliseconds within which a change is seen."""
ATTACK = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with local_api_server(tmp_path_factory.mktemp("cluster")) as path:
        asyncio.run(fill(path))
        yield path


@pytest.fixture(scope="module")
def new_page(kubeconfig: Path, browser: Browser) -> Iterator[Callable[[], Page]]:
    """Each page is one of a browser of its own: one browser opens six connections to a server, no more."""
    with page_of(kubeconfig) as url:
        yield lambda: browser.new_page(base_url=url, viewport={"width": 2600, "height": 1400})


def test_unscheduled_pod_says_why_each_node_is_refused(
    kubeconfig: Path, new_page: Callable[[], Page]
) -> None:
    page = new_page()
    page.goto("/pods/default/nowhere")
    said = aside(lambda: printed(kubeconfig, "explain pod default/nowhere"))
    assert [each["suits"] for each in said["nodes"]] == [False] * 3
    for each in said["nodes"]:
        for verdict in each["verdicts"]:
            expect(page.locator("main")).to_contain_text(verdict["message"])


async def change(kubeconfig: Path) -> None:
    """Change something in every view: a pod, a report, a CPU model and an Event."""
    report = changed(FRESH, offered_milli=1_230).encode()
    model = json.dumps({"cpuModel": ATTACK, "hyperThreadEnabled": False})
    event = {
        "metadata": {"name": "nowhere"},
        "involvedObject": {"kind": "Pod", "name": "nowhere", "namespace": "default"},
        "reason": "FailedScheduling",
        "type": "Warning",
        "message": ATTACK,
        "count": 1,
        "firstTimestamp": "2026-11-21T02:00:00Z",
        "lastTimestamp": "2026-11-21T03:00:00Z",
        "source": {"component": "corewise-scheduler"},
    }
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(PODS, pod("new", "slow", {"cpu": "2500m", "memory": "1Gi"}), "default")
        await client.patch(NODES, "fast", {"metadata": {"annotations": {names.OFFLINE_REPORT: report}}})
        stated = {"metadata": {"annotations": {names.CPU_BASIC_INFO: model}}}
        await client.patch(NODE_RESOURCE_TOPOLOGIES, "slow", stated)
        await client.create(EVENTS, event, "default")


def test_open_views_show_changes_within_2s_as_text(kubeconfig: Path, new_page: Callable[[], Page]) -> None:
    slow = ".scroll tbody tr:has-text('slow')"
    wanted = {
        "/": [(slow, "2.5 (31%)"), (slow, ATTACK)],
        "/pods": [("main", "default/new")],
        "/offline": [("tbody tr:has-text('fast')", "1.23")],
        "/problems": [("main", ATTACK)],
        "/nodes/slow": [(".bars", "2.5"), ("main", ATTACK)],
        "/pods/default/nowhere": [("main", ATTACK)],
    }
    pages = {path: new_page() for path in wanted}
    errors = [errors_of(page) for page in pages.values()]
    for path, page in pages.items():
        page.goto(path)
        expect(page.locator(".connection")).to_have_text("Live")
        for where, text in wanted[path]:
            expect(page.locator(where)).not_to_contain_text(text)
    aside(lambda: asyncio.run(change(kubeconfig)))
    for path, page in pages.items():
        for where, text in wanted[path]:
            expect(page.locator(where)).to_contain_text(text, timeout=SOON)
        assert page.locator("#app img, #app script").count() == 0
    assert errors == [[]] * len(pages)

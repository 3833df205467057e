"""One browser for the tests of a file: Playwright has an event loop in this thread, so it ends with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from web.page_data import page_data
from web.page_world import PageWorld


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def world() -> Iterator[PageWorld]:
    served = PageWorld(page_data())
    yield served
    served.end()


@pytest.fixture
def page(browser: Browser, world: PageWorld) -> Iterator[Page]:
    context = browser.new_context(base_url=world.url, reduced_motion="reduce")
    yield context.new_page()
    context.close()

"""Pictures of the web page for the docs: ``python -m tools.web_pictures KUBECONFIG HOSTS [NAME...]``.

With ``--every DIR`` each view is taken at three sizes (phone, laptop, 4K), light and dark, into a directory.

It needs Chromium, a cluster (``corewise up --kubeconfig-out KUBECONFIG``) and compute hosts (``corewise up
--scenario openstack --state DIR --for 1s`` makes them, in DIR/hosts). A pod that fits nowhere is created for
its picture, and deleted. Look at the pictures before keeping them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.errors import AlreadyExists
from corewise.kube.resources import PODS

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 1280
LISTEN = "127.0.0.1:8609"
HUGE = {
    "metadata": {"name": "huge", "labels": {"koordinator.sh/qosClass": "LSR"}},
    "spec": {
        "containers": [
            {"name": "main", "image": "any", "resources": {"requests": {"cpu": "96", "memory": "8Gi"}}}
        ]
    },
}
COLORS, FEW_COLORS = 256, 32
"""How many colors a picture of the docs has, and one of ``--every``, of which there are many."""
PALETTE = """async ([png, colors]) => {
    const image = await createImageBitmap(await (await fetch(png)).blob());
    const { width, height } = image;
    const on = new OffscreenCanvas(width, height).getContext("2d");
    on.drawImage(image, 0, 0);
    const pixels = new Uint32Array(on.getImageData(0, 0, width, height).data.buffer);
    const counts = new Map();
    for (const each of pixels) counts.set(each, (counts.get(each) ?? 0) + 1);
    const parts = (color) => [color & 255, color >> 8 & 255, color >> 16 & 255];
    const far = (a, b) => parts(a).reduce((sum, part, at) => sum + (part - parts(b)[at]) ** 2, 0);
    const palette = [];
    const nearest = new Map();
    const wrong = new Map(counts); // how many pixels, times how far they are from the palette
    while (palette.length < Math.min(colors, counts.size)) {
        const [next] = [...wrong].reduce((most, each) => each[1] > most[1] ? each : most);
        palette.push(next);
        for (const [color, many] of counts) {
            const distance = far(color, next);
            if (palette.length === 1 || many * distance < wrong.get(color)) {
                wrong.set(color, many * distance);
                nearest.set(color, palette.length - 1);
            }
        }
    }
    const places = Uint8Array.from(pixels, (each) => nearest.get(each));
    let text = "";
    for (let at = 0; at < places.length; at += 2 ** 15) {
        text += String.fromCharCode(...places.subarray(at, at + 2 ** 15));
    }
    return [width, height, palette.flatMap(parts), btoa(text)];
}"""
"""Colors of a picture, each the one of which most was lost without it, and which of them each pixel has."""


def _png(width: int, height: int, palette: Sequence[int], pixels: bytes) -> bytes:
    """Return an image with a palette: less than half of what a browser writes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[line * width : (line + 1) * width] for line in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", bytes(palette))
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def _try_a_ratio(page: Page) -> None:
    page.get_by_label("CPU model").fill("AMD EPYC 9654 96-Core Processor")
    page.locator("select[name=field]").select_option("hyperThreadTurboEnabledRatio")
    page.get_by_label("Ratio (empty").fill("1.20")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("All pods placed again")).to_be_visible(timeout=60_000)


def _try_a_flavor(page: Page) -> None:
    page.locator("input[name=vcpus]").fill("12")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator("#tried")).to_be_visible(timeout=60_000)


def _nothing(_page: Page) -> None:
    pass


VIEWS: Mapping[str, tuple[str, int, Callable[[Page], None]]] = {
    "cluster": ("/", 0, _nothing),
    "node": ("/nodes/genoa-0", 0, _nothing),
    "pods": ("/pods", 900, _nothing),
    "pod": ("/pods/default/huge", 0, _nothing),
    "offline": ("/offline", 0, _nothing),
    "problems": ("/problems", 0, _nothing),
    "recommendations": ("/recommendations", 0, _nothing),
    "what-if": ("/what-if?change=model", 0, _try_a_ratio),
    "host": ("/hosts/combined", 0, _nothing),
    "flavor": ("/what-if?change=flavor", 0, _try_a_flavor),
}
"""Address, height (0: as high as the page is), and what is done before the picture is taken."""


SIZES: Mapping[str, tuple[int, int]] = {"phone": (390, 844), "laptop": (1440, 900), "4k": (3840, 2160)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MORE: tuple[tuple[str, str, Literal["light", "dark"]], ...] = (("cluster", "phone", "dark"),)
"""Pictures of the docs beside one of each view: view, size and scheme."""


def _shot(
    browser: Browser, name: str, size: tuple[int, int], scheme: Literal["light", "dark"], colors: int = COLORS
) -> bytes:
    width, height = size
    path, tall, prepare = VIEWS[name]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(f"http://{LISTEN}{path}")
    expect(page.locator(".connection")).to_have_text("Live")
    prepare(page)
    page.wait_for_timeout(1000)
    png = base64.b64encode(page.screenshot(full_page=not tall)).decode()
    page.goto("about:blank")
    wide, high, palette, pixels = page.evaluate(PALETTE, [f"data:image/png;base64,{png}", colors])
    page.close()
    return _png(wide, high, palette, base64.b64decode(pixels))


def _take(browser: Browser, names: Sequence[str]) -> None:
    """Take the pictures of the docs: one of each view, and a few at other sizes and in the dark."""
    for name in names or VIEWS:
        (PICTURES / f"web-{name}.png").write_bytes(
            _shot(browser, name, (WIDTH, VIEWS[name][1] or 900), "light")
        )
    for name, size, scheme in MORE:
        if not names or name in names:
            (PICTURES / f"web-{name}-{size}-{scheme}.png").write_bytes(
                _shot(browser, name, SIZES[size], scheme)
            )


def _take_all(browser: Browser, directory: Path, names: Sequence[str]) -> None:
    """Take each view at every size, light and dark, into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names or VIEWS:
        for size, pixels in SIZES.items():
            for scheme in SCHEMES:
                file = directory / f"{name}-{size}-{scheme}.png"
                file.write_bytes(_shot(browser, name, pixels, scheme, FEW_COLORS))


async def _huge(kubeconfig: str, *, there: bool) -> None:
    async with Client(load_config(kubeconfig)) as client:
        if there:
            with contextlib.suppress(AlreadyExists):
                await client.create(PODS, HUGE, "default")
        else:
            await client.delete(PODS, "huge", "default")


def _set_huge(kubeconfig: str, *, there: bool) -> None:
    """Playwright has an event loop in this thread."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _huge(kubeconfig, there=there)).result()


def main(kubeconfig: str, hosts: str, names: Sequence[str], every: Path | None) -> None:
    """Serve the page and take pictures of all views, or of those named."""
    command = [sys.executable, "-m", "corewise", "web", "--kubeconfig", kubeconfig, "--compute-hosts", hosts]
    _set_huge(kubeconfig, there=True)
    with subprocess.Popen([*command, "--listen", LISTEN], stderr=subprocess.PIPE, text=True) as served:
        try:
            while served.stderr and "the page is at" not in (line := served.stderr.readline()):
                if not line:
                    raise SystemExit("corewise web ended before it served the page")
            with sync_playwright() as playwright:
                chromium = shutil.which("chromium") or shutil.which("google-chrome")
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                if every is None:
                    _take(browser, names)
                else:
                    _take_all(browser, every, names)
                browser.close()
        finally:
            served.terminate()
            _set_huge(kubeconfig, there=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take pictures of the web page.")
    parser.add_argument("kubeconfig")
    parser.add_argument("hosts")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"views; all without: {', '.join(VIEWS)}")
    parser.add_argument(
        "--every", type=Path, metavar="DIR", help="every size, light and dark, into this directory"
    )
    options = parser.parse_args()
    main(options.kubeconfig, options.hosts, options.names, options.every)

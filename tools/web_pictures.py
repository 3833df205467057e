"""Pictures of the web page for the docs: ``python -m tools.web_pictures KUBECONFIG`` (needs Chromium).

``corewise up --kubeconfig-out KUBECONFIG`` makes a cluster to show. Look at the pictures before keeping them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
VIEWS = {
    "cluster": "/",
    "node": "/nodes/genoa-0",
    "pods": "/pods",
    "offline": "/offline",
    "problems": "/problems",
}
LISTEN = "127.0.0.1:8609"


def main(kubeconfig: str) -> None:
    """Serve the page and take a picture of each view."""
    command = [sys.executable, "-m", "corewise", "web", "--kubeconfig", kubeconfig, "--listen", LISTEN]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            while served.stderr and "the page is at" not in (line := served.stderr.readline()):
                if not line:
                    raise SystemExit("corewise web ended before it served the page")
            with sync_playwright() as playwright:
                chromium = shutil.which("chromium") or shutil.which("google-chrome")
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1280, "height": 900})
                for name, path in VIEWS.items():
                    page.goto(f"http://{LISTEN}{path}")
                    expect(page.locator(".connection")).to_have_text("Live")
                    page.wait_for_timeout(1000)
                    page.screenshot(path=PICTURES / f"web-{name}.png")
                browser.close()
        finally:
            served.terminate()


if __name__ == "__main__":
    main(sys.argv[1])

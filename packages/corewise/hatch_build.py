"""Build hook: keeps the commit, and compiles the helpers in C.

The commit goes into sdists and wheels (corewise.cli.commit); an sdist that is built again has it already.
The helpers (:data:`HELPERS`) need a C compiler. Without one, or where it fails, the package is built without
them and says what is missing. An editable install finds them beside their source, a wheel has them inside and
is then bound to the platform, but to no version of Python: the library is loaded by ctypes, the program is
run. ``CC`` names another compiler.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMIT = Path("corewise/cli/commit.py")
PLACE = Path("corewise/kernel")
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra")


class Helper(NamedTuple):
    """A source in C and its result. ``without`` says what does not work if it cannot be compiled."""

    source: str
    result: str
    flags: Sequence[str]
    without: str


HELPERS = (
    Helper("chase.c", "chase.so", ("-fPIC", "-shared"), "memory latency will not be measured"),
    Helper("idle_start.c", "idle_start", (), "agents will not measure their CPUs (--evaluate)"),
)


class KeepCommitAndCompile(BuildHookInterface[Any]):
    """Adds ``commit.txt`` to an sdist and a wheel, and to a wheel the compiled helpers."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build for an sdist or a wheel ("standard"), or beside the source ("editable")."""
        self.scratch = tempfile.mkdtemp(prefix="corewise-build-")
        if version != "editable":
            self._keep_commit(build_data)
        if self.target_name == "wheel":
            for helper in HELPERS:
                self._compile(helper, version, build_data)

    def _keep_commit(self, build_data: dict[str, Any]) -> None:
        module = runpy.run_path(str(Path(self.root, "src", COMMIT)))
        if found := module["commit"]():
            file = Path(self.scratch, module["FILE"])
            file.write_text(f"{found}\n", encoding="utf-8")
            folder = Path("src" if self.target_name == "sdist" else "", COMMIT.parent)
            build_data["force_include"][str(file)] = str(folder / file.name)

    def _compile(self, helper: Helper, version: str, build_data: dict[str, Any]) -> None:
        beside = Path(self.root, "src", PLACE)
        result = (beside if version == "editable" else Path(self.scratch)) / helper.result
        result.unlink(missing_ok=True)
        why_not = compile_helper(beside / helper.source, result, helper.flags)
        if why_not:
            self.app.display_warning(f"{helper.without}: {why_not}")
        elif version != "editable":
            build_data["force_include"][str(result)] = str(PLACE / helper.result)
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what only the build needed."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def platform_tag() -> str:
    """Return the platform as wheels name it: linux_x86_64."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compile_helper(source: Path, result: Path, flags: Sequence[str]) -> str:
    """Compile; return why it could not be done, or nothing."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} is not Linux"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]})"
    command = [*compiler, *FLAGS, *flags, "-o", str(result), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the builder's compiler
    if done.returncode:
        result.unlink(missing_ok=True)
        return done.stderr.strip() or f"{compiler[0]} ended with {done.returncode}"
    return ""
